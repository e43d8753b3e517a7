#!/usr/bin/env bash
# The main result in one command: trains the same model with every method and writes the report.
# Arguments are passed on to `thinwire compare`; a later one wins.
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
build_packages | install_missing
build_preset release

main_job=(build/release/apps/thinwire compare --methods adamw,demo,distro,distro:delay=1
          --sites 4 --steps 3000 --seed 11 --seeds 3 --link 100mbit,50ms --out out/demo)

# Ends by naming the report.
"${main_job[@]}" "$@"
