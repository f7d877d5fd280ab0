"""Every command of examples/finetune.md, on a small model; its Python too where transformers and peft are installed."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

tool, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
page = (source / "examples/finetune.md").read_text()
BASE = "SmolLM2-135M"

# Runs the page's models in transformers, to compare with `weft generate` (greedy ids).
CHECK = """
import json, sys, torch
from peft import LoraConfig, get_peft_model
ids = torch.tensor([[5, 6, 7, 8]])
def close(a, b, what):
    worst = float((a(ids).logits - b(ids).logits).abs().max() / b(ids).logits.abs().max())
    print(what, worst)
    assert worst < 1e-4, (what, worst)
close(merged, adapted, "merged against adapter in transformers")
def greedy(model):
    out = model.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
    return out[0, 4:].tolist()
print(json.dumps({"merged": greedy(merged), "whole": greedy(whole), "adapted": greedy(adapted)}))
# The other direction: an adapter written by PEFT.
fresh = AutoModelForCausalLM.from_pretrained("SmolLM2-135M")
torch.manual_seed(1)
peft = get_peft_model(fresh, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM", init_lora_weights=False))
peft.save_pretrained("from-peft")
print(json.dumps({"from-peft": greedy(peft)}))
"""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def loss(*args):
    out = subprocess.run([tool, "eval", *args, "--data", "letters.txt", "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(out)["loss"]


def greedy(*args):
    command = [tool, "generate", *args, "--prompt-ids", "5,6,7,8", "--max-tokens", "12", "--ignore-eos", "--temperature", "0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return (answer[0] if isinstance(answer, list) else answer)["ids"]


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    shutil.copytree(source / "tests/golden/models/llama", BASE)
    pathlib.Path("letters.txt").write_text("".join(f"Dear {name},\nthank you for letter {i}.\nYours, A.\n\n" for i, name in enumerate(["Ada", "Emmy", "Kurt", "Alan"] * 60)))
    pathlib.Path("bin").mkdir()
    pathlib.Path("bin/weft").symlink_to(tool)
    os.environ["PATH"] = f"{folder}/bin:" + os.environ["PATH"]
    os.environ["WEFT_CACHE"] = f"{folder}/cache"
    base = {path.name: path.read_bytes() for path in pathlib.Path(BASE).iterdir()}

    commands = blocks("sh")
    assert len(commands) >= 6, "examples/finetune.md has lost its commands"
    for block in commands:
        done = subprocess.run(["bash", "-ec", block], capture_output=True, text=True)
        assert done.returncode == 0, f"{block}\nexit {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}"

    before, adapted = loss(BASE), loss(BASE, "--adapter", "runs/letters/adapter")
    assert adapted < before - 0.1 and loss("runs/whole/model") < before - 0.1, (before, adapted, loss("runs/whole/model"))
    assert abs(loss("runs/letters/model") - adapted) < 1e-4 * adapted
    assert abs(loss("letters-model") - adapted) < 0.02 * adapted  # bf16
    assert base == {path.name: path.read_bytes() for path in pathlib.Path(BASE).iterdir()}, "the base folder was changed"
    config = json.loads(pathlib.Path("runs/letters/adapter/adapter_config.json").read_text())
    assert config["target_modules"] == ["q_proj", "v_proj"] and config["base_model_name_or_path"] == BASE, config

    failed = subprocess.run([tool, "export", BASE, "out", "--adapter", "runs/none"], capture_output=True, text=True)
    assert failed.returncode not in (0, -6, -11) and "adapter_config.json" in failed.stderr, failed.stderr

    for args, part in ((["generate", BASE, "Dear", "--adapter", "runs/letters"], "runs/letters: is the folder of a training run; use runs/letters/adapter"),
                       (["generate", "runs/letters/adapter", "Dear"], "runs/letters/adapter: is the folder of an adapter; pass that of its model"),
                       (["inspect", "runs/letters/adapter"], "runs/letters/adapter: is the folder of an adapter; pass that of its model")):
        failed = subprocess.run([tool, *args], capture_output=True, text=True)
        assert failed.returncode == 2 and part in failed.stderr, (args, failed.stderr)

    shutil.copytree("runs/letters/adapter", "pissa")  # on the unmodified base its matrices would give wrong text
    pathlib.Path("pissa/adapter_config.json").write_text(json.dumps(config | {"init_lora_weights": "pissa_niter_16"}))
    for command in (["generate", BASE, "Dear", "--adapter", "pissa"], ["eval", BASE, "--data", "letters.txt", "--adapter", "pissa"], ["export", BASE, "out", "--adapter", "pissa"]):
        failed = subprocess.run([tool, *command], capture_output=True, text=True)
        assert failed.returncode == 3 and "init_lora_weights" in failed.stderr and "pissa_niter_16" in failed.stderr, (command, failed.stderr)

    if all(importlib.util.find_spec(name) for name in ("transformers", "peft", "torch")):
        done = subprocess.run([sys.executable, "-c", "\n".join(blocks("python")) + CHECK], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        answers = {}
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                answers |= json.loads(line)
            else:
                print(line)
        assert answers["merged"] == greedy("runs/letters/model"), answers
        assert answers["whole"] == greedy("runs/whole/model"), answers
        assert answers["adapted"] == greedy(BASE, "--adapter", "runs/letters/adapter"), answers
        assert answers["from-peft"] == greedy(BASE, "--adapter", "from-peft"), answers
    else:
        print("skipped: the page's Python (transformers and peft are not installed)")
    os.chdir("/")
print("1 passed, 0 failed")
