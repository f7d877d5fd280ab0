"""weft generate and weft eval on the golden models: ids, text, JSON, exit codes, damaged folders."""
import json
import math
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
golden = source / "tests/golden/models"


def run(*args, code=0):
    done = subprocess.run([tool, *map(str, args)], capture_output=True, stdin=subprocess.DEVNULL)
    out, err = done.stdout.decode(), done.stderr.decode()  # raises on a truncated character
    assert done.returncode == code, f"weft {' '.join(map(str, args))}: exit {done.returncode}, expected {code}\n{out}{err}"
    return out, err


def generate(model, *args, code=0):
    out, err = run("generate", golden / model, *args, "--json", code=code)
    return json.loads(out) if code == 0 else err


def tensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    return header, data[8 + size :]


def int_tensor(path, name):
    header, data = tensors(path)
    begin, end = header[name]["data_offsets"]
    return list(struct.unpack(f"<{(end - begin) // 4}i", data[begin:end]))


def ids_text(ids):
    return ",".join(map(str, ids))


# Greedy continuations equal those of transformers; the answer has only the new ids and their text.
for model in ("llama", "qwen3", "gpt2"):
    expected = int_tensor(golden / model / "expected.safetensors", "greedy")
    for threads in (1, 2):
        answer = generate(model, "--prompt-ids", ids_text(expected[:8]), "--max-tokens", 24, "--threads", threads, "--ignore-eos")
        assert set(answer) == {"prompt_ids", "ids", "text", "finish_reason", "tokens_per_second"}
        assert answer["ids"] == expected[8:], (model, answer["ids"], expected[8:])
        assert answer["tokens_per_second"] > 0

# A text prompt equals its ids; the streamed text equals that of --json and is followed by the rate.
hello = json.loads(run("tokenize", golden / "llama", "Hello world", "--json")[0])["ids"]
by_text = generate("llama", "Hello world", "--max-tokens", 30)
assert by_text["ids"] == generate("llama", "--prompt-ids", ids_text(hello), "--max-tokens", 30)["ids"]
streamed = run("generate", golden / "llama", "Hello world", "--max-tokens", 30)[0]
assert streamed.startswith(by_text["text"]) and "tokens/s" in streamed[len(by_text["text"]) :]

# Prompts give the same ids in a batch of any size as alone, when sampled too; another seed gives another text.
prompts = ["Hello world", "The", "def f(x):", "1234567890 and more of it"]
sampled = ["--max-tokens", 20, "--temperature", 0.9, "--top-k", 50, "--top-p", 0.95, "--min-p", 0.01, "--repetition-penalty", 1.1, "--seed", 5]
alone = [generate("qwen3", prompt, *sampled)["ids"] for prompt in prompts]
for batch in (1, 2, 4):
    together = generate("qwen3", *[arg for prompt in prompts for arg in ("--prompt", prompt)], *sampled, "--batch", batch)
    assert [one["ids"] for one in together] == alone
assert generate("qwen3", prompts[0], *sampled[:-1], 6)["ids"] != alone[0]
# A repeatable flag takes one value, so that the model may follow it.
assert run("generate", "--prompt", "a", golden / "llama", "--max-tokens", 3)[0].split("\n[")[0] == \
    run("generate", golden / "llama", "--prompt", "a", "--max-tokens", 3)[0].split("\n[")[0]
assert len(run("generate", golden / "qwen3", "--prompt", "a", "--prompt", "b", "--max-tokens", 3)[0].split("[2] ")) == 2

# A stop string ends the text before it, wherever its tokens start and end.
text = by_text["text"]
stop = text[len(text) // 2 :][:3]
stopped = generate("llama", "Hello world", "--max-tokens", 30, "--stop", stop)
assert stopped["text"] == text[: text.index(stop)] and len(stopped["ids"]) <= len(by_text["ids"])

with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)

    def copy(name, model="llama", without=()):
        made = folder / name
        made.mkdir()
        for file in (golden / model).iterdir():
            if file.name not in without and not file.name.startswith("expected"):
                shutil.copy(file, made / file.name)
                (made / file.name).chmod(0o644)
        return made

    # Token ids need no tokenizer; the answer then has no text.
    bare = copy("bare", without=("tokenizer.json",))
    answer = json.loads(run("generate", bare, "--prompt-ids", "1,2,3", "--max-tokens", 4, "--json")[0])
    assert answer["text"] is None and len(answer["ids"]) == 4
    assert "tokenizer.json" in run("generate", bare, "Hello", code=2)[1]

    # An end-of-text id from generation_config.json ends the text, and is the last id.
    ending = copy("ending")
    third = by_text["ids"][2]
    (ending / "generation_config.json").write_text(json.dumps({"eos_token_id": [639, third]}))
    ended = json.loads(run("generate", ending, "Hello world", "--max-tokens", 30, "--json")[0])
    assert ended["ids"] == by_text["ids"][: by_text["ids"].index(third) + 1]

    # Prompts from a file; eval on text and on JSONL agree with each other and with the definition of perplexity.
    lines = folder / "prompts.jsonl"
    lines.write_text("".join(json.dumps({"text": prompt}) + "\n" for prompt in prompts) + "\n")
    assert [one["ids"] for one in json.loads(run("generate", golden / "qwen3", "--prompts", lines, *sampled, "--json")[0])] == alone
    plain = folder / "plain.txt"
    plain.write_text("Hello world, the quick brown fox jumps over the lazy dog. " * 8)
    report = json.loads(run("eval", golden / "llama", "--data", plain, "--json")[0])
    assert set(report) == {"loss", "perplexity", "tokens", "documents", "windows", "context"}
    assert math.isclose(report["perplexity"], math.exp(report["loss"]), rel_tol=1e-12) and report["context"] == 256
    count = len(json.loads(run("tokenize", golden / "llama", plain.read_text(), "--json")[0])["ids"])
    assert report["tokens"] == count - 1 and report["windows"] == -(-(count - 1) // 256)
    narrow = json.loads(run("eval", golden / "llama", "--data", plain, "--context", 7, "--json")[0])
    assert narrow["tokens"] == report["tokens"] and narrow["windows"] == -(-(count - 1) // 7) and narrow["loss"] != report["loss"]
    twice = folder / "twice.jsonl"
    twice.write_text((json.dumps({"text": plain.read_text()}) + "\n") * 2)
    double = json.loads(run("eval", golden / "llama", "--data", twice, "--json")[0])
    assert double["tokens"] == 2 * report["tokens"] and math.isclose(double["loss"], report["loss"], rel_tol=1e-12)
    assert "perplexity" in run("eval", golden / "llama", "--data", plain)[0]

    # Errors of a caller: one line that names the value, and the documented exit code.
    wrong = folder / "wrong.jsonl"
    wrong.write_text('{"text": "a b c"}\n{"txt": 1}\n')
    llama = golden / "llama"
    for args, code, word in [
        (["generate"], 2, "model"),
        (["generate", "/nowhere", "a"], 2, "/nowhere"),
        (["generate", llama], 2, "no prompt"),
        (["generate", llama, ""], 2, "zero tokens"),
        (["generate", llama, "--prompt-ids", "1,x"], 2, "'x'"),
        (["generate", llama, "--prompt-ids", "1,,2"], 2, "''"),
        (["generate", llama, "--prompt-ids", "640"], 2, "640"),
        (["generate", llama, "--prompt-ids", "99999999999"], 2, "99999999999"),
        (["generate", llama, "a", "--max-tokens", 0], 2, "max-tokens"),
        (["generate", llama, "a", "--max-tokens", 256], 2, "256"),
        (["generate", llama, "--prompt-ids", ",".join(["1"] * 256)], 2, "context is 256"),
        (["generate", llama, "a", "--temperature", -1], 2, "temperature is -1"),
        (["generate", llama, "a", "--top-p", 1.5], 2, "top_p is 1.5"),
        (["generate", llama, "a", "--top-k", -1], 2, "top_k is -1"),
        (["generate", llama, "a", "--min-p", 2], 2, "min_p is 2"),
        (["generate", llama, "a", "--repetition-penalty", 0], 2, "repetition_penalty is 0"),
        (["generate", llama, "a", "--stop", ""], 2, "stop string is empty"),
        (["generate", llama, "a", "--batch", 0], 2, "batch is 0"),
        (["generate", llama, "a", "--device", "tpu"], 2, "tpu"),
        (["generate", llama, "a", "--dtype", "f16"], 2, "f16"),
        (["eval", llama], 2, "--data"),
        (["eval", llama, "--data", "/nowhere"], 2, "/nowhere"),
        (["eval", llama, "--data", wrong], 2, "wrong.jsonl:2"),
        (["eval", llama, "--data", plain, "--context", 1000], 2, "1000"),
        (["eval", bare, "--data", plain], 2, "tokenizer.json"),
    ]:
        out, err = run(*args, code=code)
        assert word in out + err and (len(err.splitlines()) == 1 or "help" in err), f"weft {' '.join(map(str, args))} says: {out}{err}"

    # Inconsistent or damaged folders: an error that names the file, never a crash.
    def edit(made, **changes):
        config = json.loads((made / "config.json").read_text())
        config.update(changes)
        (made / "config.json").write_text(json.dumps(config))
        return made

    for number, (change, code, word) in enumerate([
        ({"num_hidden_layers": 4}, 2, "model.layers.3"),
        ({"num_hidden_layers": 2}, 2, "model.layers.2"),
        ({"intermediate_size": 128}, 2, "128x64"),
        ({"attention_bias": True}, 2, "bias"),
        ({"model_type": "mamba", "architectures": ["MambaForCausalLM"]}, 3, "mamba"),
        ({"vocab_size": 10**18}, 2, "vocab_size"),
    ]):
        out, err = run("generate", edit(copy(f"edited{number}"), **change), "--prompt-ids", "1", code=code)
        assert word in err and len(err.splitlines()) == 1, (change, err)
    assert "model.safetensors" in run("generate", copy("weightless", without=("model.safetensors",)), "a", code=2)[1]
    draw = random.Random(1)
    damaged = copy("damaged")
    for file in ("model.safetensors", "config.json", "tokenizer.json", "generation_config.json"):
        whole = (damaged / file).read_bytes()
        for _ in range(10):
            cut = draw.randrange(min(len(whole), 20000))
            data = bytearray(whole[:cut] if draw.random() < 0.5 else whole)
            if len(data) == len(whole):
                data[cut] ^= 1 << draw.randrange(8)
            (damaged / file).write_bytes(data)
            done = subprocess.run([tool, "generate", damaged, "Hello", "--max-tokens", "2", "--json"], capture_output=True)
            assert done.returncode in (0, 1, 2, 3) and (done.returncode == 0 or len(done.stderr.splitlines()) == 1), (file, cut, done)
        (damaged / file).write_bytes(whole)
print("1 passed, 0 failed")
