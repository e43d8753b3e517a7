#!/usr/bin/env bash
# kjv.sh FILE: writes the King James text to FILE, one verse a line, 4,137,850 bytes. Does nothing when it is there.
# The text comes from the Debian package bible-kjv. Its tool prints "Ge1:1 In the beginning ...", 31,102 lines.
# The label is everything up to and including the first space of a line; what follows is the verse, unchanged.
set -euo pipefail
file=${1:?usage: scripts/kjv.sh FILE}
bytes=4137850
size() { stat -c %s "$1" 2>/dev/null || echo 0; }

[[ $(size "$file") != "$bytes" ]] || exit 0
if ! command -v bible >/dev/null; then
  echo "kjv: no bible program; install the package bible-kjv (scripts/setup.sh does)" >&2
  exit 1
fi
mkdir -p "$(dirname "$file")"
part=$(mktemp "$file.XXXXXX")
trap 'rm -f "$part"' EXIT
bible -f 'gen1:1-rev22:21' </dev/null | LC_ALL=C sed 's/^[^ ]* //' >"$part"
if [[ $(size "$part") != "$bytes" ]]; then
  echo "kjv: got $(size "$part") bytes instead of $bytes; is bible-kjv 4.38 installed?" >&2
  exit 1
fi
chmod 644 "$part"
mv "$part" "$file"
