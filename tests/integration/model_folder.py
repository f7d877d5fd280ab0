"""Special tokens and settings of a model folder: train, export, eval, generate and tokenize agree on them end to end."""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from checks import expect, finish
from serving import Server

tool, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
golden = source / "tests/golden/models"
QUICK = ["--steps", 2, "--batch", 1, "--sequence", 32, "--warmup", 1, "--evaluate-every", 0, "--sample-tokens", 4]


def run(*args, text=None):
    return subprocess.run([tool, *map(str, args)], capture_output=True, text=True, encoding="utf-8", input=text, timeout=120)


def ok(*args, **more):
    done = run(*args, **more)
    assert done.returncode == 0, f"weft {' '.join(map(str, args))}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def answer(*args, **more):
    return json.loads(ok(*args, "--json", **more))


def refused(what, *args, words=(), code=2, **more):
    done = run(*args, **more)
    lines = [line for line in done.stderr.splitlines() if line.startswith("weft")]
    expect(what, done.returncode == code and len(lines) == 1 and all(word in lines[0] for word in words), f"exit {done.returncode}: {done.stderr[-400:]}")


def read(path):
    return json.loads(path.read_text())


def write(path, value):
    path.write_text(json.dumps(value))


def changed(path, **more):
    write(path, {**read(path), **more})


def cached_ids(cache):
    """The ids of the one token cache in a folder."""
    (file,) = cache.glob("tokens-*/shard-00000.tokens")
    data = file.read_bytes()
    width, _, count = struct.unpack_from("<IiQ", data, 8)
    return list(struct.unpack_from(f"<{count}{'H' if width == 2 else 'i'}", data, 128))


class Folder:
    """A copy of the small Llama with a chat model's tokens: <|im_end|> and <|endoftext|> beside its own <s> and </s>."""

    def __init__(self, path, template=None, **tokenizer_config):
        self.path = path
        shutil.copytree(golden / "llama", path, ignore=shutil.ignore_patterns("expected*"))
        for file in path.iterdir():
            file.chmod(0o644)
        tokenizer = read(path / "tokenizer.json")
        # Two of the last ordinary tokens become special ones, so that the model keeps its size.
        vocab = tokenizer["model"]["vocab"]
        names = {id: name for name, id in vocab.items()}
        self.id = {}
        last = sorted(names)[-2:]
        for id, name in zip(last, ("<|endoftext|>", "<|im_end|>")):
            gone = names[id]
            tokenizer["model"]["merges"] = [m for m in tokenizer["model"]["merges"] if "".join(m if isinstance(m, list) else m.split(" ")) != gone]
            del vocab[gone]
            vocab[name] = id
            tokenizer["added_tokens"].append({"id": id, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True})
            self.id[name] = id
        self.id |= {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
        if template:
            tokenizer["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": template, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                           "pair": [], "special_tokens": {template: {"id": template, "ids": [self.id[template]], "tokens": [template]}}}
        write(path / "tokenizer.json", tokenizer)
        changed(path / "tokenizer_config.json", **tokenizer_config)

    def ends_with(self, *tokens):
        ids = [self.id[token] for token in tokens]
        for name in ("config.json", "generation_config.json"):
            changed(self.path / name, eos_token_id=ids[0] if len(ids) == 1 else ids)
        return self


def documents(path, count=60):
    path.write_text("".join(json.dumps({"text": f"Dear {name},\nthank you for letter {i}."}) + "\n" for i, name in enumerate(["Ada", "Emmy", "Kurt"] * (count // 3))))
    return path


def tokenizer_that_made_the_ids(folder):
    """--model FOLDER --tokenizer OTHER: the exported folder holds OTHER's tokenizer, whole, and its special tokens."""
    data = documents(folder / "data.jsonl")
    base = Folder(folder / "base", bos_token="<s>", eos_token="</s>", chat_template="{{ base }}")
    write(base.path / "special_tokens_map.json", {"eos_token": "</s>"})
    (base.path / "chat_template.jinja").write_text("{{ base }}")
    other = Folder(folder / "other", eos_token={"content": "<|im_end|>"}, pad_token="<|endoftext|>", note="other's own")
    vocab = read(other.path / "tokenizer.json")
    vocab["model"]["merges"] = vocab["model"]["merges"][: len(vocab["model"]["merges"]) // 2]  # other ids for the same text
    write(other.path / "tokenizer.json", vocab)
    for file in ("config.json", "generation_config.json", "model.safetensors"):
        (other.path / file).unlink()
    changed(base.path / "generation_config.json", do_sample=True, temperature=0.5, eos_token_id=2)
    out = folder / "other-run"
    ok("train", "--model", base.path, "--tokenizer", other.path, "--data", data, "--out", out, "--cache", folder / "other-cache", *QUICK)
    made = out / "model"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        expect(f"the exported {name} is the other's", (made / name).read_bytes() == (other.path / name).read_bytes())
    expect("nothing of the base's tokenizer is left", not (made / "special_tokens_map.json").exists() and not (made / "chat_template.jinja").exists())
    config, generation = read(made / "config.json"), read(made / "generation_config.json")
    expect("the exported end token is the other's", config["eos_token_id"] == generation["eos_token_id"] == other.id["<|im_end|>"], (config, generation))
    expect("the exported special tokens are the other's", config["bos_token_id"] is None and config["pad_token_id"] == other.id["<|endoftext|>"] and "bos_token_id" not in generation, config)
    expect("the base's sampling settings are kept", generation["do_sample"] is True and generation["temperature"] == 0.5, generation)
    first = json.loads(data.read_text().splitlines()[0])["text"]
    ids = answer("tokenize", made, first)["ids"]
    expect("the ids of the exported folder are those it was trained on", cached_ids(folder / "other-cache")[: len(ids)] == ids)
    # The folder of an adapter trained with another tokenizer holds that tokenizer.
    lora = folder / "other-lora"
    ok("train", "--model", base.path, "--tokenizer", other.path, "--data", data, "--out", lora, "--lora-rank", 2, "--cache", folder / "other-cache", *QUICK)
    expect("the adapter's folder holds the tokenizer", (lora / "adapter/tokenizer.json").read_bytes() == (other.path / "tokenizer.json").read_bytes())
    through_adapter = answer("generate", base.path, "Dear", "--adapter", lora / "adapter", "--max-tokens", 6, "--temperature", 0)
    expect("generate --adapter encodes prompts with the adapter's tokenizer", through_adapter["ids"] == answer("generate", lora / "model", "Dear", "--max-tokens", 6, "--temperature", 0)["ids"])
    ok("export", base.path, folder / "merged", "--adapter", lora / "adapter")
    expect("export --adapter writes the adapter's tokenizer", (folder / "merged/tokenizer.json").read_bytes() == (other.path / "tokenizer.json").read_bytes())
    # A second export into a folder removes the first tokenizer.
    ok("export", base.path, folder / "again")
    ok("export", made, folder / "again")
    expect("one tokenizer per folder", not (folder / "again/chat_template.jinja").exists() and not (folder / "again/special_tokens_map.json").exists())


def token_between_documents(folder):
    """Documents are separated by the end token that the files define."""
    data = documents(folder / "ends.jsonl")
    for name, config, ids, expected in [
        ("by-id", {}, ("<|im_end|>",), "<|im_end|>"),
        ("by-name", {"eos_token": "<|im_end|>"}, ("<|im_end|>", "<|endoftext|>"), "<|im_end|>"),
        ("by-list", {}, ("<|endoftext|>", "<|im_end|>"), "<|endoftext|>"),
    ]:
        base = Folder(folder / name, **config).ends_with(*ids)
        ok("train", "--model", base.path, "--data", data, "--out", folder / f"{name}-run", "--cache", folder / f"{name}-cache", *QUICK)
        ids_used = cached_ids(folder / f"{name}-cache")
        others = {base.id[token] for token in ("<|im_end|>", "<|endoftext|>", "</s>")} - {base.id[expected]}
        expect(f"{name}: 59 times {expected} between 60 documents", ids_used.count(base.id[expected]) == 59 and not others & set(ids_used), ids_used[:40])
        expect(f"{name}: the folder's files are unchanged", read(folder / f"{name}-run/model/generation_config.json")["eos_token_id"] == read(base.path / "generation_config.json")["eos_token_id"])
    # A new end token becomes one of the model's end tokens.
    base = Folder(folder / "new-end", eos_token="<|im_end|>").ends_with("</s>")
    ok("train", "--model", base.path, "--data", data, "--out", folder / "new-end-run", "--cache", folder / "new-end-cache", *QUICK)
    expect("the exported model has the new end token", read(folder / "new-end-run/model/generation_config.json")["eos_token_id"] == [base.id["</s>"], base.id["<|im_end|>"]])
    # No end token is defined.
    bare = Folder(folder / "bare")
    for name in ("config.json", "generation_config.json"):
        changed(bare.path / name, eos_token_id=None)
    arguments = ["train", "--model", bare.path, "--data", data, "--cache", folder / "bare-cache", *QUICK]
    refused("no end token is named", *arguments, "--out", folder / "bare-run", words=["ends.jsonl:2", "--end-token", "eos_token_id"])
    ok(*arguments, "--out", folder / "bare-run", "--end-token", "<|endoftext|>")
    expect("--end-token", cached_ids(folder / "bare-cache").count(bare.id["<|endoftext|>"]) == 59)
    expect("--end-token becomes the model's end token", read(folder / "bare-run/model/config.json")["eos_token_id"] == bare.id["<|endoftext|>"])
    refused("an end token of several tokens", *arguments, "--out", folder / "c", "--end-token", "Dear Ada and", words=["end_token", "tokens"])
    ok(*arguments, "--out", folder / "together", "--end-token", "none")


def bos_token(folder):
    """Template and add_bos_token decide about BOS in training, evaluation and generation alike."""
    data = documents(folder / "bos.jsonl")
    for name, template, config, bos in [
        ("template", "<s>", {"eos_token": "</s>", "bos_token": "<s>"}, True),
        ("added", None, {"eos_token": "</s>", "bos_token": "<s>", "add_bos_token": True}, True),
        ("taken-away", "<s>", {"eos_token": "</s>", "bos_token": "<s>", "add_bos_token": False}, False),
        ("absent", None, {"eos_token": "</s>", "bos_token": "<s>"}, False),
    ]:
        base = Folder(folder / f"bos-{name}", template=template, **config)
        ids = answer("tokenize", base.path, "Dear Ada")["ids"]
        expect(f"{name}: tokenize", (ids[0] == base.id["<s>"]) == bos, ids)
        ok("train", "--model", base.path, "--data", data, "--out", folder / f"bos-{name}-run", "--cache", folder / f"bos-{name}-cache", *QUICK)
        expect(f"{name}: a BOS before every document", cached_ids(folder / f"bos-{name}-cache").count(base.id["<s>"]) == (60 if bos else 0))
    refused("add_bos_token without a bos_token", "tokenize", Folder(folder / "nameless", add_bos_token=True).path, "x", words=["tokenizer.json", "bos_token"])

    # Trained until it knows the text: eval on the same documents gives the loss of the run.
    base = folder / "bos-template"
    out = folder / "knows"
    ok("train", "--model", base, "--data", data, "--out", out, "--cache", folder / "bos-template-cache", "--steps", 60, "--batch", 8, "--sequence", 32, "--learning-rate", 0.01,
       "--evaluate-every", 20, "--validation", 0.2)
    score = answer("eval", "--run", out)
    expect("eval --run is bitwise equal to the run's last evaluation", score["recorded"]["same_bits"] and score["step"] == 60, score)
    recorded = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines() if "validation_loss" in line][-1]
    expect("eval --run equals the loss in metrics.jsonl", score["validation_loss"] == recorded["validation_loss"], (score, recorded))
    plain = answer("eval", out / "model", "--data", data)
    expect("eval on all documents gives a similar loss", plain["loss"] < 2 * recorded["validation_loss"] + 0.2, (plain, recorded))
    lora = folder / "knows-lora"
    ok("train", "--model", base, "--data", data, "--out", lora, "--cache", folder / "bos-template-cache", "--lora-rank", 2, "--dtype", "bf16", *QUICK)
    expect("eval --run of adapters in bf16", answer("eval", "--run", lora)["recorded"]["same_bits"])
    refused("eval --run of a model", "eval", "--run", out / "model", words=["model", "config.toml"])
    refused("eval --run and a model", "eval", base, "--run", out, words=["--run"])


def context_of_a_new_model(folder):
    """The context length of a new model is the sequence length it is trained on, or --context."""
    book = folder / "book.txt"
    book.write_text("".join(f"The {i}th line of a book.\n" for i in range(400)))
    common = ["train", "--data", book, "--cache", folder / "book-cache", "--width", 32, *QUICK]
    for name, arguments, context in [("sequence", [], 32), ("asked", ["--context", 128], 128)]:
        ok(*common, *arguments, "--out", folder / f"context-{name}")
        model = folder / f"context-{name}/model"
        expect(f"{name}: max_position_embeddings", read(model / "config.json")["max_position_embeddings"] == context)
        expect(f"{name}: eval's windows", answer("eval", model, "--data", book)["context"] == context)
        refused(f"{name}: no text past the context length", "generate", model, "The ", "--max-tokens", context, words=[str(context)])
    refused("a context below the sequence", *common, "--context", 16, "--out", folder / "c", words=["sequence is 32", "16"])
    refused("a folder's context", "train", "--model", folder / "context-sequence/model", "--data", book, "--context", 64, "--out", folder / "c", words=["a context of 64 tokens is not possible"])
    sums = folder / "context-sums"
    ok("train", "--out", sums, "--steps", 2, "--width", 32, "--batch", 1, "--sums-rows", 8, "--warmup", 1)
    expect("sums: max_position_embeddings", read(sums / "model/config.json")["max_position_embeddings"] == 10)
    expect("eval --run of sums", answer("eval", "--run", sums)["recorded"]["same_bits"])


def nothing_to_train_on(folder):
    refused("a model folder without data", "train", "--model", golden / "llama", "--out", folder / "nodata", words=["--data"])
    refused("--resume without a run", "train", "--resume", "--out", folder / "typo", words=["typo", "no run"])
    expect("failed commands create no folder", not (folder / "typo").exists() and not (folder / "nodata").exists())


def character_model_resumed(folder):
    """A character model is fine-tuned from its exported folder."""
    text = folder / "letters.txt"
    text.write_text("Übermäßig schöne Straßen, naïve façades — «ça va?» 你好\n" * 30, encoding="utf-8")
    first = folder / "characters"
    ok("train", "--data", text, "--out", first, "--cache", folder / "letters-cache", "--width", 32, *QUICK)
    ok("train", "--model", first / "model", "--data", text, "--out", folder / "characters-on", "--cache", folder / "letters-on-cache", *QUICK)
    expect("fine-tuning uses the same ids", cached_ids(folder / "letters-cache") == cached_ids(folder / "letters-on-cache"))
    unseen = folder / "unseen.txt"
    unseen.write_text("Á" * 500, encoding="utf-8")
    refused("a letter outside the vocabulary", "train", "--model", first / "model", "--data", unseen, "--out", folder / "c", *QUICK, words=["unseen.txt"])
    # Several documents get an end token, and the model stops there.
    lines = folder / "lines.jsonl"
    lines.write_text("".join(json.dumps({"text": f"Größe {i}"}) + "\n" for i in range(100)))
    many = folder / "many"
    ok("train", "--data", lines, "--out", many, "--cache", folder / "many-cache", "--width", 32, *QUICK)
    about = answer("inspect", many / "model")
    expect("characters have an end token", about["tokenizer"]["between_documents"] == "<|endoftext|>" and about["tokenizer"]["end_tokens"] == ["<|endoftext|>"], about["tokenizer"])
    ok("train", "--model", many / "model", "--data", lines, "--out", folder / "many-on", "--cache", folder / "many-on-cache", *QUICK)
    expect("fine-tuning on documents uses the same ids", cached_ids(folder / "many-cache") == cached_ids(folder / "many-on-cache"))


def generation_settings(folder):
    """generation_config.json sets the sampler; flags override it."""
    base = Folder(folder / "samples", eos_token="</s>")
    greedy = answer("generate", base.path, "Hello", "--max-tokens", 12)
    expect("greedy without settings", greedy["ids"] == answer("generate", base.path, "Hello", "--max-tokens", 12, "--temperature", 0)["ids"])
    changed(base.path / "generation_config.json", do_sample=True, temperature=1.5, top_k=40, top_p=0.9, repetition_penalty=1.2)
    done = run("generate", base.path, "Hello", "--max-tokens", 12, "--seed", 3, "--json")
    sampled = json.loads(done.stdout)
    expect("the settings in use are printed", all(word in done.stderr for word in ("generation_config.json", "temperature 1.5", "top-k 40", "top-p 0.9", "repetition penalty 1.2")), done.stderr)
    spelled = answer("generate", base.path, "Hello", "--max-tokens", 12, "--seed", 3, "--temperature", 1.5, "--top-k", 40, "--top-p", 0.9, "--repetition-penalty", 1.2)
    expect("the file has the same effect as flags", sampled["ids"] == spelled["ids"] and sampled["ids"] != greedy["ids"], (sampled, spelled))
    expect("flags override the file", answer("generate", base.path, "Hello", "--max-tokens", 12, "--temperature", 0, "--repetition-penalty", 1)["ids"] == greedy["ids"])
    changed(base.path / "generation_config.json", do_sample=False)
    expect("greedy without do_sample", answer("generate", base.path, "Hello", "--max-tokens", 12, "--repetition-penalty", 1)["ids"] == greedy["ids"])
    # Words form one prompt, standard input is one prompt; the answer has a finish_reason.
    words = answer("generate", base.path, "Hello", "world", "--max-tokens", 5)
    expect("words are one prompt", words["ids"] == answer("generate", base.path, "Hello world", "--max-tokens", 5)["ids"])
    expect("standard input is one prompt", words["ids"] == answer("generate", base.path, "--max-tokens", 5, text="Hello world")["ids"])
    expect("finish_reason length", words["finish_reason"] == "length")
    changed(base.path / "generation_config.json", do_sample=False, repetition_penalty=1.0, eos_token_id=greedy["ids"][3])
    ended = answer("generate", base.path, "Hello", "--max-tokens", 12)
    expect("finish_reason eos", ended["finish_reason"] == "eos" and ended["ids"] == greedy["ids"][: greedy["ids"].index(greedy["ids"][3]) + 1], ended)
    # A special token as a stop string works although it is not shown.
    special = Folder(folder / "special", eos_token="</s>")
    tokenizer = read(special.path / "tokenizer.json")
    third = greedy["ids"][2]
    name, spelled = "<|stop|>", next(n for n, id in tokenizer["model"]["vocab"].items() if id == third)
    tokenizer["model"]["merges"] = [m for m in tokenizer["model"]["merges"] if "".join(m if isinstance(m, list) else m.split(" ")) != spelled]
    del tokenizer["model"]["vocab"][spelled]
    tokenizer["model"]["vocab"][name] = third
    tokenizer["added_tokens"].append({"id": third, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True})
    write(special.path / "tokenizer.json", tokenizer)
    stopped = answer("generate", special.path, "Hello", "--max-tokens", 12, "--stop", name)
    expect("a special token as a stop", stopped["finish_reason"] == "stop" and stopped["ids"] == greedy["ids"][:3] and name not in stopped["text"], (stopped, greedy, name))


def spelling_of_options(folder):
    for given, words in [
        (["train", "--lerning-rate", "1"], ["unknown option --lerning-rate; did you mean --learning-rate?"]),
        (["train", "--epoch", "3"], ["unknown option --epoch", "--epochs"]),
        (["generate", golden / "llama", "x", "--temprature", "1"], ["--temprature", "--temperature"]),
        (["eval", golden / "llama", "--dat=x"], ["--dat", "--data"]),
        (["trian"], ["'trian'", "did you mean train?"]),
    ]:
        refused(" ".join(map(str, given)), *given, words=words)
    out = folder / "aliases"
    ok("train", "--lr", 0.002, "--batch-size", 2, "--max-steps", 2, "--warmup_steps", 1, "--hidden-size", 32, "--sums-rows", 8, "--output-dir", out)
    config = (out / "config.toml").read_text()
    expect("aliases", all(line in config for line in ("learning_rate = 0.002", "batch = 2\n", "steps = 2\n", "warmup = 1\n", "width = 32\n")), config)
    (folder / "alias.toml").write_text("lr = 1.0\n")
    refused("another word for a key", "train", "--config", folder / "alias.toml", words=["alias.toml:1", "learning_rate"])


def declared_context(folder):
    """--context of eval, train, serve and export chooses RoPE's frequencies as that of generate does."""
    book = folder / "declared.txt"
    book.write_text("".join(f"The {i}th line of a book.\n" for i in range(60)))

    def model(name, **config):
        path = Folder(folder / f"declared-{name}").path
        old = {key: value for key, value in read(path / "config.json").items() if key != "rope_parameters"}
        write(path / "config.json", {**old, **config})
        return path

    def loss(path, *args):
        return answer("eval", path, "--data", book, *args)["loss"]

    # dynamic: 64 positions, 4 times as many at most; for 128 the base is that of the paper, as of a model without a scaling.
    dynamic = model("dynamic", max_position_embeddings=64, rope_theta=10000.0, rope_scaling={"type": "dynamic", "factor": 4.0})
    same = model("same", max_position_embeddings=128, rope_theta=10000.0 * (4 * 128 / 64 - 3) ** (16 / 14))
    other = model("other", max_position_embeddings=128, rope_theta=10000.0)
    expect("eval: dynamic", abs(loss(dynamic, "--context", 128) - loss(same)) < 1e-6 < abs(loss(same) - loss(other)), (loss(dynamic, "--context", 128), loss(same), loss(other)))
    refused("eval: beyond the factor", "eval", dynamic, "--data", book, "--context", 257, words=["a context of 257 tokens is not possible, expected 1 to 256"])
    last = {}
    for name, path, args in (("dynamic", dynamic, ["--context", 128]), ("same", same, []), ("other", other, [])):
        out = folder / f"declared-run-{name}"
        ok("train", "--model", path, "--data", book, "--cache", folder / "declared-cache", "--out", out, *[128 if each == 32 else each for each in QUICK], "--packing", "concatenate", *args)
        last[name] = answer("eval", "--run", out)
    expect("train: dynamic", abs(last["dynamic"]["validation_loss"] - last["same"]["validation_loss"]) < 1e-6 < abs(last["same"]["validation_loss"] - last["other"]["validation_loss"]), last)
    expect("eval --run: dynamic", last["dynamic"]["recorded"]["same_bits"], last)
    prompt = [3 + i * 7 % 600 for i in range(100)]
    expected = answer("generate", dynamic, "--prompt-ids", ",".join(map(str, prompt)), "--context", 128, "--max-tokens", 4, "--temperature", 0, "--ignore-eos")["text"]
    with Server(dynamic, "--context", 128) as server:
        status, served = server.ask("/v1/completions", {"prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": True})
        expect("serve: dynamic", status == 200 and served["choices"][0]["text"] == expected, (served, expected))
    refused("serve: positions beyond the context", "serve", dynamic, "--positions", 128, "--port", 0, words=["--positions is 128, the model's context is 64", "--context"])

    # longrope: the short factors up to the original context of 32, the long ones beyond it.
    factors = {"type": "longrope", "short_factor": [1.0] * 8, "original_max_position_embeddings": 32}
    long = model("long", max_position_embeddings=64, rope_scaling={**factors, "long_factor": [4.0] * 8})
    short = model("short", max_position_embeddings=64, rope_scaling={**factors, "long_factor": [1.0] * 8})
    expect("eval: longrope", loss(long) != loss(short) and loss(long, "--context", 32) == loss(short, "--context", 32))
    ok("export", long, folder / "declared-export", "--context", 32)
    expect("export: longrope", loss(folder / "declared-export") == loss(long, "--context", 32) and read(folder / "declared-export/config.json")["max_position_embeddings"] == 32)
    refused("export: beyond the context", "export", long, folder / "declared-no", "--context", 65, words=["a context of 65 tokens is not possible"])
    expect("eval: windows of GPT-2 may be shorter than its context", answer("eval", golden / "gpt2", "--data", book, "--context", 8)["context"] == 8)


with tempfile.TemporaryDirectory() as temporary:
    temporary = pathlib.Path(temporary)
    os.environ["WEFT_CACHE"] = str(temporary / "cache")
    for part in (tokenizer_that_made_the_ids, token_between_documents, bos_token, context_of_a_new_model, declared_context, nothing_to_train_on, character_model_resumed, generation_settings, spelling_of_options):
        part(temporary)
finish()
