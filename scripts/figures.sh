#!/usr/bin/env bash
# Every figure that the README states, measured again by one command.
#   scripts/figures.sh           lists the figures and their bounds
#   scripts/figures.sh NAME      builds what it needs, measures, prints one line of JSON:
#                                {"name":"...","value":1.5,"unit":"...","bound":"<= 2","ok":true}
#   scripts/figures.sh all       measures all of them, one line each
# Exit status: 0 within the bounds, 1 not (value null: the measurement itself failed), 2 unknown name.
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
bench=build/release/bench

# name | bound | unit | what it is
figures() {
  cat <<'LIST'
demo_golden          | <= 0    | failing tests | DeMo and DisTrO against the golden vectors
adamw_sharded        | <= 1e-5 | difference    | AdamW on 4 ranks in 1, 2 or 4 sites against one process, 50 steps
replicas             | <= 0    | sites         | sites whose replicated state differs from the first's after a run
sent_kept            | <= 0    | coefficients  | coefficients for which sent + kept is not the momentum, to the bit
bits_per_coefficient | <= 11.6 | bits          | a sent coefficient on the wire, position and vote together
bytes_ratio          | >= 1500 | ratio         | bytes of an fp32 ring all-reduce over those of distro with k = 8
extract_vs_plain     | >= 3    | ratio         | time of a plain dense DCT extraction over that of ours
extract_vs_pass      | <= 8    | ratio         | time of our extraction over that of one pass through the memory
train_vs_products    | <= 1.4  | ratio         | time of a training step over that of its matrix products alone
two_ranks            | >= 1.8  | ratio         | tokens per second of two ranks of one thread over those of one, by the clock
loss_gap             | <= 0.10 | nats/byte     | held-out loss of distro minus that of adamw, tuned, 3 seeds
rank_memory          | <= 64   | MiB           | memory of a rank above parameters + gradient + state, 10.9 M parameters
far_throughput       | >= 0.3  | GB/s          | frames of 1 MB to and from the hub with CURVE, 2 sites, loopback interface
far_dense            | >= 0.4  | ratio         | time of Gloo's ring all-reduce of 64 MB over that of ours through the hub, 2 sites
far_equal            | <= 0    | sites         | sites of 4 over ZeroMQ whose bits differ from loopback, 300 steps, distro and adamw
far_slow_link        | <= 5    | %             | step time of distro on 10 Mbit/s, 100 ms above that on loopback, 4 sites
far_kill_site        | <= 0    | failures      | kill -9 of one of 4 sites at 50 random moments
far_kill_hub         | <= 0    | failures      | kill -9 of the hub at 20 random moments, back after 1 to 10 s
far_freeze           | <= 0    | failures      | a link frozen for 10 s: lost, doubled or differing contributions
far_partition        | <= 0    | failures      | 2 of 4 sites cut off for 30 s: anything but one history
far_churn            | <= 0    | failures      | divergences, and stalls over 2 x peer-timeout, in 10 minutes of churn
far_flip             | <= 2    | rounds        | until a flipped bit of a parameter is named and repaired
far_strangers        | <= 0    | failures      | strangers not refused within 2 s with the difference named at both ends
gloo_near            | >= 0.9  | ratio         | time of Gloo called directly over that of ours, reduce-scatter and all-gather of 64 MB, 2 and 4 processes
gloo_faults          | <= 0    | reports       | kill -9 or SIGSTOP of a rank: reports later than 3.5 s or without rank and operation
shard_memory         | <= 10   | %             | peak memory of a rank over the formula of docs/sharding.md, `full` on 4 ranks
exposed_communication | <= 0.5 | ratio         | share of a step that waits for a link with prefetch over that without, 2 ranks, 200 MB/s
full_vs_none         | <= 1e-5 | difference    | `full` on 4 ranks against one process, 50 steps; 1 where distro's bits depend on ranks
checkpoint_stall     | <= 1.5  | ratio         | time that saving 100 MB of state takes from training over that of one copy
checkpoint_resume    | <= 0    | methods       | methods for which 100 steps, saved, and 100 more differ from 200, 4 sites
checkpoint_reshard   | <= 0    | failures      | saved by 4 ranks, gone on with by 1, 2, 3 and 8: other bits
checkpoint_kill      | <= 0    | failures      | kill -9 at 50 random moments while saving: nothing valid, older, or other bits
oracles              | <= 0    | failing tests | methods against their exact degenerate cases
mural_to_adamw       | <= -0.03 | nats/byte    | held-out loss of mural, k = 16, minus that of tuned adamw, 1000 steps, 3 seeds (plans/small.toml)
mural_to_muon        | <= 0.15 | nats/byte     | the same minus that of tuned muon, all-reduced
mural_delay          | <= 0.02 | nats/byte     | mural with delay 1 minus mural
mural_naive          | >= 0.02 | nats/byte     | mural with delay 1 and without look-ahead minus mural
mural_k4             | <= 0.05 | nats/byte     | mural, k = 4, minus tuned adamw
mural_local_to_adamw | <= 0    | nats/byte     | mural_local, 10 local steps, minus tuned adamw
nightly_to_adamw     | <= 0    | nats/byte     | mural minus tuned adamw, 0.87 M parameters, 400 steps, 3 seeds (plans/nightly.toml)
nightly_to_muon      | <= 0.3  | nats/byte     | mural minus tuned muon, the same
local_bytes          | <= 5    | %             | bytes of streaming_diloco and sparseloco off the formula, the worse
plugin_median        | <= 120  | lines         | of a method's own files, the median
plugin_smallest      | <= 40   | lines         | the same, the smallest
device_bits          | <= 0    | failing tests | kernels, methods and whole runs on an emulated device against those on the host, to the bit
device_traffic       | <= 12   | bytes         | that extract reads and writes of values and residual, a parameter, counted in its source
without_toolkit      | <= 0    | failing tests | of all, in a build without the CUDA Toolkit
without_driver       | <= 0    | failing tests | of all, in a build with the CUDA Toolkit where there is no driver
build_time           | <= 600  | s             | configuring and building release from nothing, without ccache
test_time            | <= 600  | s             | all tests of release
LIST
}

# What to run for NAME; prints the value alone.
measure() {
  case $1 in
    demo_golden) failing_tests Golden ;;
    oracles) failing_tests '^Oracles' ;;
    device_bits) failing_tests 'Device|OnADevice|InsideASite' ;;
    device_traffic) counted_traffic ;;
    without_toolkit) failing_tests . build/host -D THINWIRE_CUDA=OFF ;;
    without_driver) failing_tests_without_driver ;;
    mural_to_adamw) plan_gap small mural adamw ;;
    mural_to_muon) plan_gap small mural muon ;;
    mural_delay) plan_gap small "mural delay 1" mural ;;
    mural_naive) plan_gap small "mural delay 1, naive" mural ;;
    mural_k4) plan_gap small "mural k=4" adamw ;;
    mural_local_to_adamw) plan_gap small mural_local adamw ;;
    nightly_to_adamw) plan_gap nightly mural adamw ;;
    nightly_to_muon) plan_gap nightly mural muon ;;
    plugin_median) plugin_lines | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }' ;;
    plugin_smallest) plugin_lines | sort -n | head -1 ;;
    local_bytes | adamw_sharded | replicas | sent_kept | bits_per_coefficient | bytes_ratio | loss_gap | rank_memory | two_ranks)
      run_json value figures_bench "$1"
      ;;
    shard_memory) run_json value memory_bench "$1" ;;
    exposed_communication | full_vs_none) run_json value sharding_bench "$1" ;;
    far_throughput | far_dense) run_json value far_bench "$1" ;;
    checkpoint_*) run_json value checkpoint_bench "$1" ;;
    far_*) run_json value far_faults_bench "$1" ;;
    gloo_*) run_json value gloo_bench "$1" ;;
    extract_vs_plain) run_json ratio_plain extract_bench --json ;;
    extract_vs_pass) run_json ratio_pass extract_bench --json ;;
    train_vs_products) run_json ratio train_bench --json ;;
    build_time) seconds clean_build ;;
    test_time) build_preset release >&2 && seconds ctest --test-dir build/release --no-tests=error -j2 ;;
  esac
}

# Below, "|| return" stands where a failure must end the measurement: bash ignores set -e in a function called
# where its status is tested.

# run_json KEY BENCH ARGUMENT...: builds the bench, runs it, prints the number under KEY of its JSON.
run_json() {
  local key=$1 program=$2
  shift 2
  [[ -e build/release/build.ninja ]] || cmake --preset release >&2 || return
  cmake --build build/release --target "$program" >&2 || return
  "$bench/$program" "$@" | python3 -c '
import json, math, sys
value = float(json.load(sys.stdin)[sys.argv[1]])
sys.exit("not a finite number") if not math.isfinite(value) else print(repr(value))' "$key"
}

# failing_tests PATTERN [DIR OPTION...]: how many of those whose name matches, in build/release or in a build of its
# own; no such test is a failed measurement.
failing_tests() {
  local output pattern=$1 dir=${2:-build/release}
  shift
  if (($#)); then
    shift
    { cmake --preset release -B "$dir" "$@" && cmake --build "$dir"; } >&2 || return
  else
    build_preset release >&2 || return
  fi
  output=$(ctest --test-dir "$dir" --no-tests=error -j2 -R "$pattern" 2>&1) || true
  grep -oE '[0-9]+ tests failed out of [0-9]+' <<<"$output" | grep -oE '^[0-9]+'
}

# Where there is a driver or no toolkit it cannot be measured.
failing_tests_without_driver() {
  build_preset release >&2 || return
  grep -q '^CMAKE_CUDA_COMPILER:' build/release/CMakeCache.txt || return
  if build/release/bench/gpu_bench --probe >/dev/null 2>&1; then return 1; fi
  failing_tests .
}

# What tests/device_traffic_test.cc has counted.
counted_traffic() {
  local found
  found=$(mktemp)
  cmake --build build/release --target device_traffic_test >&2 || return
  build/release/tests/device_traffic_test "--gtest_output=json:$found" >&2 || return
  python3 -c '
import json, sys
tests = [test for suite in json.load(open(sys.argv[1]))["testsuites"] for test in suite["testsuite"]]
print(next(test["bytes_a_parameter"] for test in tests if "bytes_a_parameter" in test))' "$found"
  rm -f "$found"
}

# plan_gap PLAN A B: runs the experiment, or what this program has not run of it yet, and prints the mean
# difference of A's loss and B's over its seeds.
plan_gap() {
  local program=build/release/apps/thinwire out
  build_preset release >&2 || return
  mkdir -p build/plans
  out=build/plans/$1-$(sha256sum "$program" | cut -c 1-8)
  "$program" compare --plan "plans/$1.toml" --out "$out" --json >"$out.json" || [[ -s $out.json ]] || return
  python3 scripts/plan_gap.py "$out.json" "$2" "$3"
}

# Lines of each method's own files. Parts that methods share are no plug-in, nor are mere settings of another.
plugin_lines() {
  local shared='distro|mural|topk|all_reduce|arithmetic|budget|catalog|coarse|rule|rules|tile_values|tile_votes|.*_methods'
  for file in optimizers/*; do
    file=${file##*/}
    file=${file%.*}
    [[ $file =~ ^($shared)$ ]] || echo "$file"
  done | sort -u | while read -r stem; do cat optimizers/"$stem".* | wc -l; done
}

seconds() {
  local before after
  before=$(date +%s.%N)
  "$@" >&2 || return
  after=$(date +%s.%N)
  awk -v a="$before" -v b="$after" 'BEGIN { printf "%.1f\n", b - a }'
}

# shellcheck disable=SC2317  # called through seconds
clean_build() {
  local dir status=0
  dir=$(mktemp -d)
  export CCACHE_DISABLE=1
  { cmake --preset release -B "$dir" && cmake --build "$dir"; } || status=1
  rm -rf "$dir"
  return "$status"
}

# report NAME: measures and prints the line; fails when the bound does not hold.
report() {
  local name=$1 bound unit value ok
  IFS='|' read -r _ bound unit _ < <(figures | grep "^$name ")
  read -r bound <<<"$bound"
  read -r unit <<<"$unit"
  value=$(measure "$name" | tail -n 1) || value=null
  ok=$(awk -v v="$value" -v op="${bound%% *}" -v b="${bound##* }" \
    'BEGIN { print v == "null" || v == "" ? "false" : ((op == "<=" ? v + 0 <= b + 0 : v + 0 >= b + 0) ? "true" : "false") }')
  printf '{"name":"%s","value":%s,"unit":"%s","bound":"%s","ok":%s}\n' "$name" "${value:-null}" "$unit" "$bound" "$ok"
  [[ $ok == true ]]
}

if ((!$#)); then
  figures
  exit 0
fi
mapfile -t known < <(figures | awk '{ print $1 }')
names=("$@")
if [[ $1 == all ]]; then names=("${known[@]}"); fi
for name in "${names[@]}"; do
  if [[ " ${known[*]} " != *" $name "* ]]; then
    echo "figures: unknown figure '$name'; known: ${known[*]}" >&2
    exit 2
  fi
done
{ build_packages; test_packages; } | install_missing >&2
status=0
for name in "${names[@]}"; do report "$name" || status=1; done
exit "$status"
