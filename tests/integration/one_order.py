"""weft check --one-order: two processes compute the same bits, with any number of threads; a model folder, JSON, and wrong arguments."""
import json
import os
import pathlib
import platform
import subprocess
import sys

from checks import expect, finish

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
golden = source / "tests/golden/models"
FAMILIES = 13  # each gets one model
SMALL = ["--tokens", 300, "--models", FAMILIES, "--length", 64, "--batch", 3]


def check(*args, code=0, **environment):
    done = subprocess.run([tool, "check", "--one-order", *map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, **environment})
    expect(f"exit code of {' '.join(map(str, args))}", done.returncode == code, (done.returncode, done.stdout[-500:], done.stderr[-500:]))
    return done.stdout if code == 0 else done.stderr


# Two processes, and other numbers of threads.
reports = [json.loads(check(*SMALL, "--json", "--threads", threads)) for threads in (2, 2, 1)]
digests = [[model["digest"] for model in report["models"]] for report in reports]
expect("the same bits in another process", digests[0] == digests[1], digests)
expect("and with one thread", digests[0] == digests[2], digests)
expect("different models", len(set(digests[0])) == FAMILIES, digests[0])
first = reports[0]
expect("what the report has", first["device"] == "cpu" and first["same"] and all(m["differences"] == [] for m in first["models"]), first)
expect("enough positions", sum(m["positions"] for m in first["models"]) >= 300, first)
other = json.loads(check(*SMALL, "--json", "--seed", 2))
expect("another seed", all(a["digest"] != b["digest"] for a, b in zip(first["models"], other["models"])), other)

# Another instruction set has the same bits in f32; each kind of bf16 sums keeps the promise.
if platform.machine() == "x86_64" and sys.argv[3] != "ON":  # WEFT_NATIVE: a build of one instruction set
    digests = [[m["digest"] for m in json.loads(check(*SMALL, "--json", "--dtype", "f32", **isa))["models"]] for isa in ({}, {"WEFT_ISA": "avx2"})]
    expect("AVX2 and the best instruction set", digests[0] == digests[1], digests)
for kind in ("none", "emulated", "emulated-amx"):
    text = check(*SMALL, "--dtype", "bf16", WEFT_BF16_DOT=kind)
    expect(f"bf16 sums, {kind}", "no differing bits" in text, text)

# A model folder, in the dtype asked for.
for model in ("llama", "qwen3", "gpt2"):
    for dtype in ("f32", "bf16"):
        text = check("--model", golden / model, "--dtype", dtype, "--tokens", 60, "--length", 40)
        expect(f"{model} {dtype}", "no differing bits" in text and "same" in text, text)

# Wrong arguments.
for args, words in ((["--tokens", 0], ["--tokens", "0"]), (["--shape", "9t"], ["9t", "135m"]), (["--length", 1], ["length", "1"]),
                    (["--model", golden / "llama", "--shape", "1b"], ["--model", "--shape"]), (["--adapter", "x"], ["--adapter", "--model"]),
                    (["--dtype", "f16"], ["f16"]), (["--model", golden / "llama", "--length", 100000], ["100000", "context"])):
    err = check(*args, code=2)
    expect(f"refusal of {args}", all(word in err for word in words), err)
finish()
