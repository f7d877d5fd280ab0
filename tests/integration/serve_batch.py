"""weft serve: a request has the same log-probabilities, to the bit, alone and among 63 others, with a cached prefix, and with three adapters
and the base model in one batch; adapters are chosen by `model`. Only 127.0.0.1."""
import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

from checks import expect, finish
from serving import Server, refused

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
LLAMA = source / "tests/golden/models/llama"
ADAPTERS = {"ann": 1, "bob": 2, "cid": 3}  # names and seeds
OTHERS = 63


def bits(choices):
    """The log-probabilities of an answer as bytes, and its text."""
    return [(one["text"], struct.pack(f"{len(one['logprobs']['token_logprobs'])}d", *(x or 0.0 for x in one["logprobs"]["token_logprobs"]))) for one in choices]


def write_adapter(folder, seed):
    """An adapter of random matrices, large enough to change every answer."""
    config, r = json.loads((LLAMA / "config.json").read_text()), random.Random(seed)
    hidden, rank = config["hidden_size"], 4
    shapes = {"q_proj": (hidden, config["num_attention_heads"] * config["head_dim"]), "v_proj": (hidden, config["num_key_value_heads"] * config["head_dim"])}
    header, data = {}, b""
    for layer in range(config["num_hidden_layers"]):
        for name, (inputs, outputs) in shapes.items():
            for matrix, shape in (("A", (rank, inputs)), ("B", (outputs, rank))):
                values = struct.pack(f"<{shape[0] * shape[1]}f", *(r.gauss(0, 0.3) for _ in range(shape[0] * shape[1])))
                header[f"base_model.model.model.layers.{layer}.self_attn.{name}.lora_{matrix}.weight"] = {
                    "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
                data += values
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 8, "lora_dropout": 0.0, "bias": "none",
                                                            "target_modules": list(shapes)}))


def asked(model, seed, shared=False):
    """A request; `shared`: with a long beginning that others have, too."""
    r = random.Random(seed)
    prompt = (list(range(3, 131)) if shared else []) + [r.randint(3, 250) for _ in range(r.randint(1, 90))]
    return {"model": model, "prompt": prompt, "max_tokens": 24, "logprobs": 0, "temperature": 0.7 if seed % 2 else 0, "seed": seed, "ignore_eos": True}


def all_at_once(server, requests):
    answers = [None] * len(requests)

    def send(i):
        answers[i] = bits(server.ask("/v1/completions", requests[i])[1]["choices"])
    threads = [threading.Thread(target=send, args=(i,)) for i in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def alone(server, request):
    return bits(server.ask("/v1/completions", request)[1]["choices"])


def one_among_others(folder):
    with Server(folder, "--sequences", OTHERS + 1, "--queue", 100) as server:
        one = asked("llama", 1000)
        first = alone(server, one)
        expect("among 63 others", all_at_once(server, [one] + [asked("llama", seed) for seed in range(OTHERS)])[0] == first)
        shared = asked("llama", 1001, shared=True)
        before = alone(server, shared)
        reused = server.metric("weft_reused_tokens_total")
        expect("with its own prefix in the cache", alone(server, shared) == before)
        expect("which is reused", server.metric("weft_reused_tokens_total") >= reused + 127, server.metric("weft_reused_tokens_total") - reused)
        others = all_at_once(server, [shared] + [asked("llama", seed, shared=True) for seed in range(OTHERS)])
        expect("among 63 that share it", others[0] == before)
    with Server(folder, "--sequences", OTHERS + 1, "--queue", 100) as server:  # nothing is cached
        expect("in a fresh server", alone(server, shared) == before and alone(server, one) == first)
    with Server(folder, "--sequences", 3, "--pool", 640, "--queue", 100) as server:
        expect("with few pages", all_at_once(server, [shared] + [asked("llama", seed, shared=True) for seed in range(OTHERS)]) == others)


def adapters(folder, temporary):
    folders = {}
    for name, seed in ADAPTERS.items():
        folders[name] = temporary / f"adapter-{name}"
        write_adapter(folders[name], seed)
    models = ["llama", *ADAPTERS]
    requests = [asked(models[i % 4], i // 4, shared=i % 8 < 4) for i in range(OTHERS + 1)]
    expected = {}
    for model in models:  # each served alone, as the model with that adapter
        with Server(folder, "--name", model, *(["--adapter", folders[model]] if model in folders else [])) as server:
            expected |= {i: alone(server, one) for i, one in enumerate(requests) if one["model"] == model}
    expect("adapters change the answers", len({str(expected[i]) for i in range(4)}) == 4)
    with Server(folder, "--sequences", OTHERS + 1, "--queue", 100, *(x for name in folders for x in ("--adapter", f"{name}={folders[name]}"))) as server:
        expect("they are models", [one["id"] for one in server.ask("/v1/models")[1]["data"]] == models and server.ask("/v1/models/bob")[1]["parent"] == "llama")
        expect("named in the answer", server.ask("/v1/completions", requests[1])[1]["model"] == requests[1]["model"])
        for turn in ("first", "again, with all prefixes cached"):
            answers = all_at_once(server, requests)
            wrong = [i for i in range(len(requests)) if answers[i] != expected[i]]
            expect(f"three adapters and the base in one batch, {turn}", not wrong, [(i, requests[i]["model"]) for i in wrong])
        echo = {"prompt": list(range(5, 60)), "max_tokens": 0, "echo": True, "logprobs": 0}
        scores = {model: str(bits(server.ask("/v1/completions", echo | {"model": model})[1]["choices"])) for model in models}
        expect("prompts are scored with them", len(set(scores.values())) == 4)
        refused(server, "no such adapter", 404, {"model": "dan", "prompt": "a"}, code="model_not_found", param="model")
        likely = {model: server.ask("/v1/completions", echo | {"model": model, "logprobs": 2})[1]["choices"] for model in models}
        expect("also with the most likely tokens", all(str(bits(likely[model])) == scores[model] for model in models) and
               all(len(each) >= 2 for each in likely["ann"][0]["logprobs"]["top_logprobs"][1:]), likely)
    with Server(folder, "--name", "ann", "--adapter", folders["ann"]) as server:
        expect("to the bits of that model", str(bits(server.ask("/v1/completions", echo)[1]["choices"])) == scores["ann"])


def wrong_adapters(folder, temporary):
    for args, words in ((["--adapter", "x=" + str(temporary / "nothing")], "nothing"), (["--adapter", "ann=" + str(temporary / "adapter-ann")] * 2, "ann"),
                        (["--adapter", str(temporary / "adapter-ann"), "--adapter", "bob=" + str(temporary / "adapter-bob")], "--adapter"),
                        (["--pool", "100"], "--pool"), (["--adapter", "llama=" + str(temporary / "adapter-ann")], "llama")):
        done = subprocess.run([tool, "serve", folder, "--port", "0", *args], capture_output=True, text=True, timeout=300)
        expect(f"{args} is refused", done.returncode == 2 and words in done.stderr, done.stderr)


with tempfile.TemporaryDirectory() as temporary:
    temporary = pathlib.Path(temporary)
    shutil.copytree(LLAMA, temporary / "private/llama")
    one_among_others(temporary / "private/llama")
    adapters(temporary / "private/llama", temporary)
    wrong_adapters(temporary / "private/llama", temporary)
finish()
