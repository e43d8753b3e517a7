#!/usr/bin/env bash
# On a machine with a GPU: builds, runs all tests of devices, times every kernel against the card's own copy bandwidth,
# trains on it, and writes one JSON. Meant to end within 8 minutes on 8 cores.
#   scripts/gpu_check.sh [OUT.json]     (gpu_check.json)
# Exit status: 0 all passed, 1 something failed, 3 no usable device (the reason is said, nothing is written).
# Its last results are kept in docs/gpu_results.md: scripts/gpu_check.sh --report IN.json prints that page's table.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${1:-} == --report ]]; then
  exec python3 scripts/gpu_report.py "$2"
fi
out=${1:-gpu_check.json}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
begin=$SECONDS
program=build/release/apps/thinwire

cmake --preset release -D THINWIRE_BENCH=ON -D THINWIRE_TESTS=ON >"$work/configure.log"
grep -q 'CUDA TRUE' "$work/configure.log" || { echo "gpu_check: no CUDA Toolkit was found" >&2; exit 3; }
ninja -C build/release thinwire_cli gpu_bench gpu_tests >"$work/build.log" || { tail -20 "$work/build.log" >&2; exit 1; }
built=$((SECONDS - begin))
if ! build/release/bench/gpu_bench --rows 64 >"$work/probe" 2>&1; then
  cat "$work/probe" >&2
  exit 3
fi

status=0
ctest --test-dir build/release -L gpu --no-tests=error --output-junit "$work/tests.xml" >"$work/tests.log" 2>&1 || status=1
tail -4 "$work/tests.log" >&2
build/release/bench/gpu_bench >"$work/kernels.jsonl" || status=1
# The demo, shorter: the same method and seed on the card, on the host, and a site of each kind together.
run() { "$program" compare --methods adamw,mural,distro --steps "$2" --device "$1" --out "$work/$1" --json >"$work/$1.json" || status=1; }
run cuda 1000
run cpu 200
export GPU_CHECK_STATUS=$status GPU_CHECK_BUILT=$built GPU_CHECK_SECONDS=$((SECONDS - begin))
python3 scripts/gpu_report.py --collect "$work" >"$out"
echo "gpu_check: $out, ${GPU_CHECK_SECONDS} s, $([[ $status == 0 ]] && echo "all passed" || echo "something FAILED")"
exit "$status"
