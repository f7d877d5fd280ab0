"""Whole runs on the Metal simulator: training equals the CPU's up to rounding, generation equals that of transformers."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
golden = source / "tests/golden/models"
STEPS = 3


def run(*args):
    done = subprocess.run([tool, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, f"weft {' '.join(map(str, args))}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def losses(device, name, dtype, model, folder):
    out = folder / f"{device}-{name}"
    data = folder / "documents.jsonl"
    words = "the quick brown fox jumps over the lazy dog. " * 2
    data.write_text("".join(json.dumps({"text": words[i : i + 1 + i * 7 % 31]}) + "\n" for i in range(60)))
    run("train", "--data", data, "--cache", folder, "--device", device, "--dtype", dtype, "--steps", STEPS, "--batch", 2, "--sequence", 24, *model,
        "--evaluate-units", 1, "--sample-tokens", 1, "--warmup", 2, "--out", out)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["packing"] for row in rows if "packing" in row] == ["documents"], rows[0]
    return [row["loss"] for row in rows if "loss" in row][:STEPS]


def greedy(model):
    data = (golden / model / "expected.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    begin, end = json.loads(data[8 : 8 + size])["greedy"]["data_offsets"]
    return list(struct.unpack(f"<{(end - begin) // 4}i", data[8 + size + begin : 8 + size + end]))


# The first loss differs by rounding only; later updates propagate such differences, far below the effect of a step. In bf16
# activations and gradients are rounded to a relative 2^-8; a loss is a mean over many of them.
LLAMA = ("--layers", 2, "--width", 48, "--heads", 4, "--kv-heads", 2)
GPT2 = ("--model", "gpt2-124m", "--layers", 1, "--width", 32, "--heads", 2, "--dropout", 0.1)
LORA = ("--model", golden / "llama", "--lora-rank", 2)
RUNS = {"f32": ("f32", LLAMA), "bf16": ("bf16", (*LLAMA, "--recompute")), "gpt2": ("f32", GPT2), "lora": ("bf16", LORA)}
BOUND = {"f32": 1e-4, "bf16": 2**-8}
with tempfile.TemporaryDirectory() as folder:
    for name, (dtype, model) in RUNS.items():
        cpu, metal = (losses(device, name, dtype, model, pathlib.Path(folder)) for device in ("cpu", "metal-sim"))
        print(name, cpu, metal)
        assert len(cpu) == STEPS and len(metal) == STEPS, (cpu, metal)
        assert all(abs(a - b) < BOUND[dtype] * a for a, b in zip(cpu, metal)), (name, cpu, metal)

expected = greedy("llama")
answer = json.loads(run("generate", golden / "llama", "--prompt-ids", ",".join(map(str, expected[:8])), "--max-tokens", 6, "--ignore-eos", "--device", "metal-sim", "--json"))
assert answer["ids"] == expected[8:14], (answer["ids"], expected[8:14])
print(f"{len(RUNS) + 1} passed, 0 failed")
