#!/bin/sh
# cuda_compile.sh COMMAND...: runs a CUDA compile command and fails if ptxas notes (C75xx) that it did not compile wgmma or
# setmaxnreg as written: products serialized, waits injected, register counts ignored. ptxas prints these notes as
# information, which --warning-as-error does not cover, and the kernel would merely be slow.
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
"$@" 2>"$log"
status=$?
cat "$log" >&2
[ "$status" -eq 0 ] || exit "$status"
grep -q '(C75[0-9][0-9])' "$log" || exit 0

# Removes the object, so that the build tool does not take the file for compiled.
echo "cuda_compile.sh: the notes above (C75xx) are errors here: the kernel would not run as written" >&2
while [ $# -gt 1 ]; do
  [ "$1" != -o ] || rm -f "$2"
  shift
done
exit 1
