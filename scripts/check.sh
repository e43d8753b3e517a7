#!/usr/bin/env bash
# Style and static checks, beside the tests: clang-format on every source file, clang-tidy on the .cc files that
# differ from BASE, shellcheck on the scripts. Needs clang-format-14; clang-tidy-14 and shellcheck are used if there.
#   scripts/check.sh [BASE]        BASE: a commit, main unless given
#   scripts/check.sh --format      only clang-format (the ctest test EverySourceFileIsFormatted)
#   scripts/check.sh --fix         formats the files
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
status=0

mapfile -t sources < <(git ls-files '*.h' '*.cc' '*.cu')
if [[ ${1:-} == --fix ]]; then exec clang-format-14 -i "${sources[@]}"; fi
clang-format-14 --dry-run --Werror "${sources[@]}" || status=1
if [[ ${1:-} == --format ]]; then exit "$status"; fi

if command -v shellcheck >/dev/null; then
  mapfile -t shell < <(git ls-files '*.sh' .ci/run)
  shellcheck -x "${shell[@]}" || status=1
fi

if command -v clang-tidy-14 >/dev/null; then
  mapfile -t changed < <(git diff --name-only --diff-filter=d "${1:-main}" -- '*.cc')
  if ((${#changed[@]})); then
    # A compilation database that clang understands: no flag that only gcc has, no CUDA.
    [[ -e build/tidy/compile_commands.json ]] ||
      cmake --preset dev -B build/tidy -D CMAKE_CXX_COMPILER=clang++ -D THINWIRE_CUDA=OFF >/dev/null
    printf '%s\n' "${changed[@]}" | grep -vE '^tests/(outside|cuda)/' |
      xargs -r -n 1 -P "$(nproc)" clang-tidy-14 --quiet -p build/tidy \
        2> >(grep -v 'warnings generated' >&2) || status=1
  fi
fi
exit "$status"
