"""bf16 dot products of pairs (weft/tile/cpu/bf16_dot.h) and in tiles (amx.h): the emulation meets every bound of the spec; the
CPU's instruction, if it has one, gives the same bits; an unknown WEFT_BF16_DOT is an error.

    bf16_dot.py TOOL SOURCE_DIR [i/n]    part i of n of the cases; without it all of them
"""
import json
import os
import subprocess
import sys

tool = sys.argv[1]
part = ["--part", sys.argv[3]] if len(sys.argv) > 3 else []


def run(choice, *arguments):
    settings = {key: value for key, value in os.environ.items() if key not in ("WEFT_ISA", "WEFT_BF16_DOT")}
    if choice:
        settings["WEFT_BF16_DOT"] = choice
    return subprocess.run([tool, *arguments], capture_output=True, text=True, env=settings)


def digests(choice):
    found = {}
    for op in ("matmul", "causal_attention"):
        done = run(choice, "check", "--op", op, "--json", *part)
        assert done.returncode == 0, done.stdout + done.stderr
        found |= {c["name"]: c["digest"] for c in json.loads(done.stdout)["cases"] if "digest" in c}
    return found


def says(done, text):
    return done.returncode != 0 and text in done.stdout + done.stderr


widened = digests("none")
flags = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
for hardware, emulation, flag in (("hardware", "emulated", "avx512_bf16"), ("amx", "emulated-amx", "amx_bf16")):
    emulated = digests(emulation)
    others = [name for name in emulated if emulated[name] != widened[name]]
    assert all("bf16" in name for name in others), f"{emulation}: other bits than by f32 where no bf16 was multiplied: {others}"
    for op in ("matmul.NN", "causal_attention.forward", "causal_attention.backward"):
        assert any(name.startswith(op) for name in others), f"{op}: nothing was multiplied by {emulation}"
    absent = says(run(hardware, "check", "--op", "matmul", "--case", "3x5x7"), "asks for " + hardware + ", which this machine")
    assert absent or flag in flags, f"{hardware} is not refused on a machine without {flag}"
    if not absent:
        differing = [name for name, digest in digests(hardware).items() if digest != emulated[name]]
        assert not differing, f"{hardware} and its emulation differ: {differing}"
    print(f"{len(others)} cases by {emulation}; {hardware} {'is not here' if absent else 'agrees'}")
wrong = run("sometimes", "check", "--op", "matmul")
assert says(wrong, "'sometimes', expected none, hardware, emulated, amx or emulated-amx"), wrong.stdout + wrong.stderr
