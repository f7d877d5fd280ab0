"""weft inspect and weft tokenize on golden folders, on variants found in real folders, and on damaged ones."""
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

tool = sys.argv[1]
models = pathlib.Path(sys.argv[2]) / "tests" / "golden" / "models"


def run(*args, code=0, text=None):
    done = subprocess.run([tool, *map(str, args)], capture_output=True, text=True, encoding="utf-8", input=text)
    assert done.returncode == code, f"weft {args}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done


for model in ("gpt2", "llama", "qwen3"):
    about = json.loads(run("inspect", models / model, "--json").stdout)
    assert about["config"]["model_type"] == model and about["tokenizer"]["vocab_size"] == about["config"]["vocab_size"]
    assert about["parameters"] == sum(math.prod(t["shape"]) for t in about["tensors"]), about["parameters"]
    assert about["parameters"] * 4 == about["bytes"] and about["metadata"] == {"format": "pt"} and about["chat_template"] is False
    assert all(t["dtype"] == "F32" for t in about["tensors"])
    text = run("inspect", models / model).stdout
    assert f"{about['parameters']} parameters" in text and "chat template" not in text
    assert json.loads(run("inspect", models / model / "model.safetensors", "--json").stdout)["tensors"] == about["tensors"]

    lines = json.loads((models / model / "expected_tokens.json").read_text())
    for line in lines:
        if "\0" in line["text"]:
            got = json.loads(run("tokenize", models / model, "--json", text=line["text"]).stdout)
        else:
            got = json.loads(run("tokenize", models / model, "--json", "--", line["text"]).stdout)
        assert got["ids"] == line["ids"] and got["decoded"] == line["decoded"], line["text"]
        assert len(got["pieces"]) == len(got["ids"])
assert "(special)" in run("tokenize", models / "llama", "<s> x").stdout
assert "encoded as it is" in run("tokenize", "--help").stdout

with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary) / "model"
    shutil.copytree(models / "llama", folder)
    (folder / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    about = json.loads(run("inspect", folder, "--json").stdout)["chat_template"]
    assert about == {"names": ["default"], "parses": True, "marks_answers": False}, about
    assert "applied by weft chat" in run("inspect", folder).stdout

    # Unsupported parts are named and the rest is shown; a damaged file gives a one-line error.
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "qwen2_moe"}))
    assert "qwen2_moe" in json.loads(run("inspect", folder, "--json").stdout)["config"]["unsupported"]
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": "64"}))
    done = run("inspect", folder, code=2)
    assert "config.json: $.hidden_size" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer["truncation"] = {"max_length": 1}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "truncation                       set, does nothing here" in run("inspect", folder).stdout
    tokenizer["model"]["dropout"] = 0.1
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "dropout" in run("tokenize", folder, "x", code=3).stderr
    (folder / "tokenizer.json").write_text("{")
    assert "tokenizer.json" in run("tokenize", folder, "x", code=2).stderr
    with open(folder / "model.safetensors", "r+b") as file:
        file.truncate(1000)
    assert "model.safetensors" in run("inspect", folder / "model.safetensors", code=2).stderr
for args in (["inspect"], ["inspect", "/nowhere"], ["tokenize", "/nowhere", "x"]):
    run(*args, code=2)
done = subprocess.run([tool, "tokenize", models / "gpt2", "--", b"\xff"], capture_output=True)
assert done.returncode == 2 and b"UTF-8" in done.stderr, done.stderr
with tempfile.TemporaryDirectory() as temporary:
    latin = pathlib.Path(temporary) / "latin.txt"
    latin.write_bytes(b"caf\xe9")
    for args in (["eval", models / "gpt2", "--data", latin], ["generate", models / "gpt2", "--prompts", latin]):
        done = run(*args, code=2)
        assert "latin.txt" in done.stderr and "UTF-8 at byte 3" in done.stderr, done.stderr
assert "got an empty path" in run("export", models / "gpt2", "", code=2).stderr
print("1 passed, 0 failed")
