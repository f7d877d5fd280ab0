"""Every case of every op gives the same bits on every instruction set that this machine has (WEFT_ISA).

Thread counts are compared within each run of `weft check`.

    same_bits.py TOOL SOURCE_DIR [i/n]    part i of n of the cases; without it all of them
"""
import json
import os
import subprocess
import sys

tool = sys.argv[1]
part = ["--part", sys.argv[3]] if len(sys.argv) > 3 else []


def digests(isa):
    done = subprocess.run([tool, "check", "--json", *part], capture_output=True, text=True, env={**os.environ, "WEFT_ISA": isa})
    if done.returncode == 2 and "does not support" in done.stderr:
        return None
    assert done.returncode == 0, done.stdout + done.stderr
    return {c["name"]: c["digest"] for c in json.loads(done.stdout)["cases"] if "digest" in c}


runs = {isa: d for isa in ("avx512", "avx2", "neon") if (d := digests(isa)) is not None}
print(f"instruction sets here: {', '.join(runs)}")
if len(runs) < 2:
    print("skipped: this machine has one instruction set only")
    sys.exit(77)
first, *others = runs
differing = [f"{name}: {first} and {other} differ" for other in others for name in runs[first] if runs[other][name] != runs[first][name]]
print("\n".join(differing))
print(f"{len(runs[first]) - len(differing)} passed, {len(differing)} failed")
sys.exit(bool(differing))
