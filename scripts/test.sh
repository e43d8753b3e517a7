#!/usr/bin/env bash
# Installs what is missing, builds everything, runs the tests, then every fuzz target (scripts/fuzz.sh).
# The last line is ctest's own count. Exit status 0: all passed.
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
{ build_packages; test_packages; } | install_missing
build_preset release

status=0
ctest --test-dir build/release --output-on-failure --no-tests=error -j2 2>&1 | tee build/ctest.log || status=1
scripts/fuzz.sh || status=1
grep -E 'tests passed,' build/ctest.log || status=1
exit "$status"
