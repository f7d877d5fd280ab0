"""The product of bf16 pairs (weft/tile/cpu/bf16_dot.h): emulated, it meets every bound of the spec; where the CPU has the
instruction, that gives the bits of the emulation; and a WEFT_BF16_DOT that is no choice is an error. The same of attention in
tiles of AMX (amx.h)."""
import json
import os
import subprocess
import sys

tool = sys.argv[1]


def run(choice, *arguments):
    settings = {key: value for key, value in os.environ.items() if key not in ("WEFT_ISA", "WEFT_BF16_DOT")}
    if choice:
        settings["WEFT_BF16_DOT"] = choice
    return subprocess.run([tool, *arguments], capture_output=True, text=True, env=settings)


def digests(choice, ops=("matmul", "causal_attention")):
    found = {}
    for op in ops:
        done = run(choice, "check", "--op", op, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        found |= {c["name"]: c["digest"] for c in json.loads(done.stdout)["cases"] if "digest" in c}
    return found


emulated, widened = digests("emulated"), digests("none")
pairs = [name for name in emulated if emulated[name] != widened[name]]
assert all("bf16" in name for name in pairs), f"other bits than by f32 where no pair was multiplied: {pairs}"
for op in ("matmul.NN", "causal_attention.forward", "causal_attention.backward"):
    assert any(name.startswith(op) for name in pairs), f"{op}: no pair was multiplied"
wrong = run("sometimes", "check", "--op", "matmul")
assert wrong.returncode != 0 and "'sometimes', expected none, hardware, emulated, amx or emulated-amx" in wrong.stdout + wrong.stderr, wrong.stdout + wrong.stderr
cpu = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
hardware, amx = "avx512_bf16" in cpu, "amx_bf16" in cpu
if hardware:
    differing = [name for name, digest in digests("hardware").items() if digest != emulated[name]]
    assert not differing, f"the instruction and its emulation differ: {differing}"
else:
    missing = run("hardware", "check", "--op", "matmul")
    assert missing.returncode != 0 and "asks for hardware, which this machine does not have" in missing.stdout + missing.stderr, missing.stdout + missing.stderr
tiled = digests("emulated-amx", ["causal_attention"])
assert any(digest != widened[name] for name, digest in tiled.items()), "causal_attention: no tile was multiplied"
if amx:
    differing = [name for name, digest in digests("amx", ["causal_attention"]).items() if digest != tiled[name]]
    assert not differing, f"tiles and their emulation differ: {differing}"
print(f"{len(pairs)} cases by pairs; the instruction {'agrees' if hardware else 'is not here'}, tiles {'agree' if amx else 'are not here'}")
