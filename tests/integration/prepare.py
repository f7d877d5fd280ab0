"""weft prepare: killed and continued, training on it equals training on the data, changed data is noticed, errors name their place."""
import gzip
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from checks import expect, finish

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
LLAMA = source / "tests/golden/models/llama"
GB = 1 << 20  # in KiB, as the system reports resident memory


def weft(*args):
    return subprocess.run([tool, *map(str, args)], capture_output=True, text=True, timeout=300)


def prepare(data, out, *more):
    return [tool, "prepare", "--data", str(data), "--out", str(out), "--shard-tokens", "65536", *map(str, more)]


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def make_corpus(folder):
    folder.mkdir()
    order = random.Random(3)
    words = [f"word{i}" for i in range(2000)]
    text = lambda count: " ".join(order.choices(words, k=count)) + "\n"
    with gzip.open(folder / "a.jsonl.gz", "wt") as file:
        for i in range(3000):
            file.write(json.dumps({"id": i, "text": text(order.randrange(1, 300))}) + "\n")
    (folder / "b.txt").write_text(text(400000))
    return folder


def killed_and_continued(folder, data):
    whole, parts = folder / "whole", folder / "parts"
    run = subprocess.Popen(prepare(data, whole, "--vocabulary", "bytes"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    shown = run.stdout.read()
    status, usage = os.wait4(run.pid, 0)[1:]
    expect("data is prepared", status == 0, shown)
    expect("resident memory is below 1 GB", usage.ru_maxrss < GB, usage.ru_maxrss)
    kills = 0
    for shards in (2, 5, 9):
        run = subprocess.Popen(prepare(data, parts, "--vocabulary", "bytes", "--threads", 1), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while run.poll() is None and len(list(parts.glob("shard-*.tokens"))) < shards:
            time.sleep(0.001)
        run.send_signal(signal.SIGKILL)
        shown = run.communicate()[0]
        kills += run.returncode == -signal.SIGKILL
        expect("a later run continues", shards == 2 or "continuing to tokenise 2 files" in shown, shown)
    expect("preparations were killed", kills == 3, kills)
    done = weft("train", "--plan", "--data", parts)
    expect("half a preparation is no data", done.returncode == 2 and "is not prepared to its end; run weft prepare again" in done.stderr, done.stderr)
    done = subprocess.run(prepare(data, parts, "--vocabulary", "bytes"), capture_output=True, text=True)
    expect("a killed preparation is continued", done.returncode == 0 and "continuing to tokenise" in done.stderr, done.stderr)
    expect("with the same files at the end", files_of(parts) == files_of(whole), (sorted(files_of(parts)), sorted(files_of(whole))))
    again = subprocess.run(prepare(data, parts, "--vocabulary", "bytes"), capture_output=True, text=True)
    expect("nothing is left to do", again.returncode == 0 and "prepared before and unchanged" in again.stdout, again.stdout + again.stderr)


def trained(data, out, *more):
    done = weft("train", "--data", data, "--out", out, "--cache", out.parent / "cache", "--model", "llama-tiny", "--layers", 1, "--width", 32, "--heads", 2,
                "--sequence", 32, "--batch", 4, "--steps", 4, "--evaluate-every", 0, "--sample-tokens", 0, *more)
    expect(f"training on {out.name} ends", done.returncode == 0, done.stderr)
    return (out / "model/model.safetensors").read_bytes(), done.stdout + done.stderr


def same_weights(folder, data):
    out = folder / "tokens"
    done = subprocess.run(prepare(data, out, "--tokenizer", LLAMA), capture_output=True, text=True)
    expect("data is prepared with a tokenizer", done.returncode == 0, done.stderr)
    raw = trained(data, folder / "raw", "--tokenizer", LLAMA)[0]
    prepared, shown = trained(out, folder / "prepared")
    expect("prepared data gives the weights of the data", prepared == raw)
    expect("prepared data is not tokenised again", "tokenising" not in shown, shown)
    again, shown = trained(data, folder / "again", "--tokenizer", LLAMA)
    expect("the second run on the data finds its tokens", again == raw and "tokenising" not in shown, shown)
    other = weft("train", "--plan", "--data", out, "--tokenizer", source / "tests/golden/models/gpt2", "--end-token", "\n")
    expect("another tokenizer is an error", other.returncode == 2 and "was prepared with another tokenizer" in other.stderr, other.stderr)
    mixed = [trained(f"{out}:0.7,{data}/b.txt:0.3", folder / f"mixed{i}", "--validation-data", data / "a.jsonl.gz", "--threads", 1 + i) for i in (0, 1)]
    expect("a mixture gives the same weights again", mixed[0][0] == mixed[1][0] and mixed[0][0] != raw)
    expect("a mixture is described", "a mixture of 2 parts" in mixed[0][1] and "weight 0.7: " in mixed[0][1] and "; validation: " in mixed[0][1], mixed[0][1])
    return out


def changed_data(folder, data, out):
    with open(data / "b.txt", "a") as file:
        file.write("more")
    done = weft("train", "--plan", "--data", out)
    expect("changed data is noticed", done.returncode == 0 and "the data has changed since it was prepared: " in done.stderr and "b.txt had" in done.stderr, done.stderr)
    done = subprocess.run(prepare(data, out, "--tokenizer", LLAMA), capture_output=True, text=True)
    expect("changed data is not overwritten", done.returncode == 2 and "pass --overwrite" in done.stderr and done.stderr.count("\n") == 1, done.stderr)
    done = subprocess.run(prepare(data, out, "--tokenizer", LLAMA, "--overwrite"), capture_output=True, text=True)
    expect("unless that is asked for", done.returncode == 0, done.stderr)
    expect("and then is as the data is", "has changed" not in weft("train", "--plan", "--data", out).stderr)


def errors(folder):
    (folder / "x.jsonl").write_text('{"text": "a"}\n{"text": "b"\n')
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n' * 1000)[:-9])
    for args, text in (
        (["--data", folder / "x.jsonl"], "x.jsonl:2: is not valid JSON, at column 13: unexpected end of input; expected '}'"),
        (["--data", folder / "cut.jsonl.gz"], "cut.jsonl.gz: is truncated: its gzip data ends after"),
        (["--data", folder / "x.jsonl", "--field", "body"], 'x.jsonl:1: has no field "body"; its fields are "text"'),
        (["--data", folder / "*.csv"], "*.csv: no file matches this pattern"),
        (["--data", f"{folder}/x.jsonl:0"], "x.jsonl' is 0, expected a number above 0"),
        (["--data", f"{folder}/x.jsonl:1"], "has weights, which only weft train --data takes"),
    ):
        done = weft("prepare", "--out", folder / "out", "--vocabulary", "bytes", *args)
        expect(f"error: {text}", done.returncode == 2 and text in done.stderr, done.stderr)
    done = weft("prepare", "--data", folder / "x.jsonl", "--out", folder / "out2")
    expect("no tokenizer is an error", done.returncode == 2 and "there is no tokenizer: pass --tokenizer FOLDER" in done.stderr, done.stderr)


with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    data = make_corpus(folder / "data")
    killed_and_continued(folder, data)
    prepared = same_weights(folder, data)
    changed_data(folder, data, prepared)
    errors(folder)
finish()
