"""weft tokenizer train: the folder it writes is used by train, tokenize and generate; its errors; Ctrl-C."""
import gzip
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from checks import expect, finish

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
CASES = {case["name"]: case for case in json.loads((source / "tests/golden/tokenizer_training/cases.json").read_text())["cases"]}


def weft(*args):
    return subprocess.run([tool, *map(str, args)], capture_output=True, text=True, timeout=300)


def write(path, documents):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    return path


def ids_of(folder, text):
    done = weft("tokenize", folder, text, "--json")
    return json.loads(done.stdout)["ids"] if done.returncode == 0 else done.stderr


def from_text_to_model(folder):
    """Trains a tokenizer, a model with it, and compares the ids that the model's folder gives with those of `tokenizers`."""
    for name in ("english/gpt2", "english/llama3"):
        case, out, run = CASES[name], folder / name, folder / f"run-{name.replace('/', '-')}"
        data = write(folder / "corpus.jsonl", case["documents"])
        done = weft("tokenizer", "train", "--data", data, "--vocab", case["vocab"], "--pattern", case["pattern"], "--out", out, "--threads", 2)
        expect("a tokenizer is trained", done.returncode == 0 and f"{out}: {case['vocab']} tokens, {len(case['merges'])} merges" in done.stdout, done.stdout + done.stderr)
        written = json.loads((out / "tokenizer.json").read_text())
        expect(f"{name}: merges", [" ".join(merge) for merge in written["model"]["merges"]] == case["merges"])
        done = weft("train", "--data", data, "--tokenizer", out, "--model", "llama-tiny", "--sequence", 32, "--batch", 2, "--steps", 2, "--out", run, "--cache", folder / "cache")
        expect("a model is trained with it", done.returncode == 0, done.stderr)
        exported = folder / f"exported-{name.replace('/', '-')}"
        done = weft("export", run / "model", exported)
        expect("the model is exported", done.returncode == 0, done.stderr)
        for text, ids in case["texts"].items():
            if text:
                expect(f"{name}: ids of {text!r}", ids_of(out, text) == ids == ids_of(exported, text), ids_of(exported, text))
        done = weft("generate", exported, "the people of", "--max-tokens", 4, "--temperature", 0, "--json")
        expect("the model generates", done.returncode == 0 and json.loads(done.stdout)["prompt_ids"] == ids_of(out, "the people of"), done.stdout + done.stderr)


def notices(folder):
    case = CASES["one_word/gpt2"]
    data = write(folder / "one.jsonl", case["documents"])
    done = weft("tokenizer", "train", "--data", data, "--out", folder / "one")
    told = f"the data is exhausted: after {len(case['merges'])} merges no pair of tokens occurs in it; the vocabulary has {case['vocabulary']} tokens, --vocab asked for 32000"
    expect("exhausted data is told", done.returncode == 0 and told in done.stderr, done.stderr)
    done = weft("tokenizer", "train", "--data", data, "--out", folder / "two", "--min-frequency", 2, "--special", "<|user|>", "--special", "<|bot|>", "--end-token", "<|end|>")
    expect("--min-frequency is told", done.returncode == 0 and "occurs 2 times" in done.stderr, done.stderr)
    expect("special tokens come first", ids_of(folder / "two", "<|end|><|user|><|bot|>") == [0, 1, 2])
    done = weft("tokenizer", "train", "--data", write(folder / "few.jsonl", ["ab ab ab cd ef"]), "--out", folder / "three", "--most-words", 2)
    expect("dropped words are told", done.returncode == 0 and "more than 2 distinct words: 3 of them that had occurred at most 1 time were dropped (60 %" in done.stderr, done.stderr)


def inputs(folder):
    """The same documents under another field, compressed, and in several files give the same tokenizer."""
    case = CASES["english/gpt2"]
    lines = [json.dumps({"body": text, "id": i}) + "\n" for i, text in enumerate(case["documents"])]
    (folder / "parts").mkdir()
    (folder / "parts/a.jsonl").write_text("".join(lines[:1]))
    (folder / "parts/b.jsonl.gz").write_bytes(gzip.compress("".join(lines[1:]).encode()))
    done = weft("tokenizer", "train", "--data", f"{folder}/parts/*.jsonl,{folder}/parts/b.jsonl.gz", "--field", "body", "--vocab", case["vocab"], "--out", folder / "fields")
    expect("--field and a list are read", done.returncode == 0, done.stderr)
    written = json.loads((folder / "fields/tokenizer.json").read_text())
    expect("--field: merges", [" ".join(merge) for merge in written["model"]["merges"]] == case["merges"])
    done = weft("tokenizer", "train", "--data", folder / "parts", "--out", folder / "without")
    expect("a missing field is an error", done.returncode == 2 and 'a.jsonl:1: has no field "text"; its fields are "body", "id" (--field NAME reads another)' in done.stderr, done.stderr)


def errors(folder):
    data = write(folder / "data.jsonl", ["some text"])
    (folder / "bytes.txt").write_bytes(b"good \xff bad")
    (folder / "empty.txt").write_text("")
    write(folder / "none.jsonl", ["", ""])
    (folder / "there").mkdir()
    train = lambda *args: weft("tokenizer", "train", *args)
    for args, word in [
        (("--data", data, "--out", folder / "there"), "there: exists already; expected the name of a new folder"),
        (("--data", data, "--out", data / "new"), "data.jsonl is not a folder"),
        (("--data", data, "--out", folder / "new", "--vocab", 256), "the vocabulary is to have 256 tokens, expected 257 (256 bytes and 1 special token)"),
        (("--data", data, "--out", folder / "new", "--vocab", "many"), "many"),
        (("--data", data, "--out", folder / "new", "--pattern", "bert"), "the pattern is 'bert', expected gpt2 or llama3"),
        (("--data", data, "--out", folder / "new", "--special", "a"), "the special token 'a' is the letter of byte 97"),
        (("--data", data, "--out", folder / "new", "--threads", 0), "--threads"),
        (("--data", data, "--out", folder / "new", "--vocap", 300), "unknown option --vocap; did you mean --vocab?"),
        (("--data", folder / "bytes.txt", "--out", folder / "new"), "bytes.txt: is not UTF-8: invalid bytes at byte 5"),
        (("--data", folder / "empty.txt", "--out", folder / "new"), "empty.txt: the file is empty"),
        (("--data", folder / "none.jsonl", "--out", folder / "new"), "none.jsonl: there is no text to train on: all 2 documents are empty"),
        (("--data", folder / "missing.txt", "--out", folder / "new"), "missing.txt: there is no such file or folder"),
        (("--data", f"{data}:0.5,{data}:0.5", "--out", folder / "new"), "has weights, which only weft train --data takes"),
        (("--out", folder / "new"), "--data"),
        (("--data", data), "--out"),
    ]:
        done = train(*args)
        expect(f"{args[2:]} is an error", done.returncode == 2 and word in done.stderr, f"{done.returncode} {done.stderr}")
    expect("errors write nothing", not (folder / "new").exists())
    for args, word in (((), "expected a command: weft tokenizer train"), (("trian",), "trian")):
        done = weft("tokenizer", *args)
        expect(f"weft tokenizer {args} is an error", done.returncode == 2 and word in done.stderr, done.stderr)


def interrupted(folder):
    """A run of minutes ends at Ctrl-C, and leaves nothing."""
    chance = random.Random(1)
    words = (chance.randbytes(6).hex() for _ in range(400_000))
    (folder / "random.txt").write_text(" ".join(words))
    run = subprocess.Popen([tool, "tokenizer", "train", "--data", folder / "random.txt", "--vocab", "2000000", "--out", folder / "stopped"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    expect("Ctrl-C ends the training", run.returncode == -signal.SIGINT, f"{run.returncode} {out} {err}")
    expect("Ctrl-C leaves nothing", not list(folder.glob("stopped*")))


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    from_text_to_model(folder)
    notices(folder)
    inputs(folder)
    errors(folder)
    interrupted(folder)
finish()
