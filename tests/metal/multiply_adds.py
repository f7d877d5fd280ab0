#!/usr/bin/env python3
"""Counts every float multiplication that causal attention executes on the simulator: at least 90 % must be on simdgroup_matrix.

  multiply_adds.py TOOL CLANG

This file acts as the simulator's compiler. It compiles to LLVM assembly, where each basic block of a kernel adds its multiplications
(fmul and fma, vectors by their length) to a counter, and compiles that. Matrix multiplications are excluded; the simulator counts them
itself. A multiplication without an addition counts as one with an addition.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MULTIPLICATION = re.compile(r"= (?:tail )?(?:fmul (?:[a-z]+ )*(?:<(\d+) x )?float|call (?:[a-z]+ )*(?:<(\d+) x )?float>? @llvm\.(?:fma|fmuladd)\.)")
TERMINATOR = re.compile(r"^  (?:br|ret|switch|indirectbr|unreachable|resume|invoke|.*= invoke)\b")
MATRIX_PRODUCT = "weft_sim8multiply"  # in the mangled name of the function that multiplies matrices
TELL = r"""
#include <stdio.h>
#include <stdlib.h>
extern unsigned long long weft_multiplications;
__attribute__((destructor)) static void tell(void) {
  FILE* to = fopen(getenv("WEFT_MULTIPLICATIONS"), "a");
  fprintf(to, "%llu\n", weft_multiplications);
  fclose(to);
}
"""


def instrumented(text):
    lines, count, counting = [], 0, False
    for line in text.splitlines():
        if line.startswith("define "):
            count, counting = 0, MATRIX_PRODUCT not in line
        found = MULTIPLICATION.search(line)
        if found:
            count += int(found.group(1) or found.group(2) or 1)
        if TERMINATOR.match(line):
            if counting and count:
                lines.append(f"  %weft.{len(lines)} = atomicrmw add ptr @weft_multiplications, i64 {count} monotonic, align 8")
            count = 0
        lines.append(line)
    return "\n".join([*lines, "@weft_multiplications = hidden global i64 0", ""])


def compile_counted(arguments):
    clang = os.environ["WEFT_MULTIPLICATIONS_CLANG"]
    if "-shared" not in arguments:
        return subprocess.run([clang, *arguments]).returncode
    to = pathlib.Path(arguments[arguments.index("-o") + 1])
    text, tell = to.with_suffix(".ll"), to.with_suffix(".tell.c")
    rest = [a for a in arguments if a not in ("-shared", "-nostartfiles", "-o", str(to))]
    subprocess.run([clang, *rest, "-S", "-emit-llvm", "-o", str(text)], check=True)
    text.write_text(instrumented(text.read_text()))
    tell.write_text(TELL)
    return subprocess.run([clang, "-O1", "-w", "-fPIC", "-shared", "-nostartfiles", str(text), str(tell), "-o", str(to)]).returncode


def counted(tool, clang, case):
    """Multiplications on matrices and others of one case, forward and backward, in both dtypes."""
    with tempfile.TemporaryDirectory() as folder:
        others = pathlib.Path(folder) / "multiplications"
        environment = {**os.environ, "XDG_CACHE_HOME": folder, "WEFT_METAL_SIM_CLANG": str(pathlib.Path(__file__).resolve()),
                       "WEFT_MULTIPLICATIONS": str(others), "WEFT_MULTIPLICATIONS_CLANG": clang}
        shares = []
        for variant in ("forward", "backward"):
            others.unlink(missing_ok=True)
            command = [tool, "bench", "--device", "metal-sim", "--op", "causal_attention", "--dtype", "bf16", "--case", f".{variant}/bf16/{case}", "--json"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            (kernel,) = json.loads(done.stdout)["kernels"]
            assert kernel["case"] == case, kernel
            shares.append((variant, kernel["matrix_multiply_adds"], sum(map(int, others.read_text().split()))))
        return shares


def main(tool, clang):
    failed = 0
    for case in ("1x131x2x1x80", "1x256x2x1x64"):
        for variant, matrix, others in counted(tool, clang, case):
            share = matrix / (matrix + others)
            print(f"causal_attention.{variant} {case}: {matrix} multiply-adds on matrices, {others} others: {100 * share:.1f} %")
            failed += share < 0.9 or others == 0
    return failed


if __name__ == "__main__":
    if "WEFT_MULTIPLICATIONS" in os.environ:
        sys.exit(compile_counted(sys.argv[1:]))
    sys.exit(main(*sys.argv[1:]))
