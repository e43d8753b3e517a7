#!/usr/bin/env bash
# The main result in one command: trains the same model with every method and writes the report.
# Arguments are passed on to `thinwire compare`; a later one wins.
set -euo pipefail
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
build_packages | install_missing
build_preset release

# Learning rates: tuned on seed 1 (docs/learning_rates.md); shown here are other seeds.
# shellcheck disable=SC2054  # the commas belong to the words
main_job=(build/release/apps/thinwire compare --methods adamw,muon,mural,mural:delay=1,distro
          --lr adamw=1.6e-2 --lr muon=8e-3 --lr mural=1.6e-2 --lr distro=4e-3
          --sites 4 --steps 3000 --seed 11 --seeds 3 --link 100mbit,50ms --out out/demo)

# Ends by naming the report.
"${main_job[@]}" "$@"
