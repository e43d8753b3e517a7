#!/usr/bin/env bash
# scripts/fuzz.sh [TARGET...]: builds the fuzz targets with clang and runs each (all, if none is named) for
# FUZZ_SECONDS (30). Known inputs in tests/fuzz/corpus/TARGET are read; new ones go to build/fuzz/corpus.
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
seconds=${FUZZ_SECONDS:-30}

run_target() {
  local name=$1 dirs=("build/fuzz/corpus/$1") log=build/fuzz/$1.log
  mkdir -p "${dirs[0]}"
  if [[ -d tests/fuzz/corpus/$name ]]; then dirs+=("tests/fuzz/corpus/$name"); fi
  if "build/fuzz/tests/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build/fuzz/$name-" "${dirs[@]}" &>"$log"; then
    echo "fuzz $name: $(grep -oE '^Done [0-9]+ runs in [0-9]+ second' "$log")s"
  else
    tail -n 40 "$log"
    echo "fuzz $name: FAILED; the input is build/fuzz/$name-*"
    return 1
  fi
}

targets=("$@")
if ((!$#)); then
  for source in tests/fuzz/*_fuzz.cc; do
    if [[ -e $source ]]; then targets+=("$(basename "$source" .cc)"); fi
  done
fi
((${#targets[@]})) || exit 0
{ build_packages; test_packages; } | install_missing
if ! command -v clang++ >/dev/null; then
  echo "fuzz: no clang++ here, ${#targets[@]} targets not run"
  exit 0
fi
build_preset fuzz

failed=0
for name in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= 2)); do sleep 0.2; done
  run_target "$name" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || failed=$((failed + 1)); done
echo "fuzz: ${#targets[@]} targets, $seconds s each, $failed failed"
((failed == 0))
