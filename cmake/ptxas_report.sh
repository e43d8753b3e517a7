#!/bin/sh
# A launcher for nvcc: runs the compiler that it is given with -Xptxas -v, keeps what ptxas says of
# each kernel beside the object (FILE.o.ptxas, read by tests/cuda/gpu_registers_test.cc), and passes
# all else on.
object=
previous=
for word in "$@"; do
  [ "$previous" = -o ] && object=$word
  previous=$word
done
"$@" -Xptxas -v 2>"$object.words"
status=$?
told='^ptxas info|bytes stack frame,|^$'
grep -E "$told" "$object.words" >"$object.ptxas"
grep -Ev "$told" "$object.words" >&2
rm -f "$object.words"
exit $status
