#!/usr/bin/env bash
# The main result in one command: trains the same model with every method and writes the report.
# Arguments are passed on to `thinwire compare`; a later one wins.
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
build_packages | install_missing
build_preset release
scripts/kjv.sh build/data/kjv.txt

main_job=(build/release/apps/thinwire compare --data build/data/kjv.txt --out out/demo)

"${main_job[@]}" "$@"
echo "report: out/demo/report.md"
