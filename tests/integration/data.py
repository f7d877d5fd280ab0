"""--data of the tool: all forms of JSON, folders with other files, a token cache shared by runs and left by a killed one."""
import json
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

from checks import expect, finish

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
LLAMA = source / "tests/golden/models/llama"


def weft(*args):
    return subprocess.run([tool, *map(str, args)], capture_output=True, text=True, timeout=120)


def tokens(cache):
    """The ids in the first shard of each folder of a cache."""
    found = {}
    for path in cache.glob("tokens-*/shard-00000.tokens"):
        shard = path.read_bytes()
        width, _, count = struct.unpack_from("<IiQ", shard, 8)
        found[path.parent.name] = shard[128:128 + width * count]
    return found


def planning(data, cache, *more):
    """A command that tokenises and trains nothing."""
    return [tool, "train", "--plan", "--model", "llama-tiny", "--tokenizer", str(LLAMA), "--data", str(data), "--sequence", "8", "--cache", str(cache), *more]


def ids_of(data, folder):
    cache = folder / f"cache-{data.name}"
    done = subprocess.run(planning(data, cache), capture_output=True, text=True)
    expect(f"{data.name} is read", done.returncode == 0, done.stderr)
    return list(tokens(cache).values())[0], done.stdout + done.stderr


def forms_of_json(folder):
    texts = [f"Document {i} says \"{i * i}\" and ends.\n" for i in range(20)]
    objects = [{"id": i, "text": text} for i, text in enumerate(texts)]
    forms = {
        "a.jsonl": "".join(json.dumps(o) + "\n" for o in objects),
        "a.ndjson": "".join(json.dumps(o) + "\n" for o in objects),
        "lines.json": "".join(json.dumps(o) + "\n" for o in objects),
        "list.json": json.dumps(objects, indent=1),
        "strings.json": json.dumps(texts),
        "list.jsonl": json.dumps(objects),
    }
    found = set()
    for name, content in forms.items():
        (folder / name).write_text(content)
        found.add(ids_of(folder / name, folder)[0])
    expect("all forms of JSON have the same ids", len(found) == 1)
    (folder / "other.json").write_text(json.dumps({"words": texts}))
    for command in (planning(folder / "other.json", folder / "c"), [tool, "eval", LLAMA, "--data", folder / "other.json"],
                    [tool, "generate", LLAMA, "--prompts", folder / "other.json"]):
        done = subprocess.run(command, capture_output=True, text=True)
        expect("JSON without texts is an error", done.returncode == 2 and 'other.json:1: has no field "text"' in done.stderr, done.stderr)


def folder_with_pictures(folder):
    data = folder / "corpus"
    data.mkdir()
    (data / "a.txt").write_text("Some words to read. " * 20)
    (data / "b.json").write_text(json.dumps(["Others."]))
    plain = ids_of(data, folder)[0]
    (data / "c.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (data / "d.bin").write_bytes(b"\xff\x00")
    with_pictures, shown = ids_of(data, folder)
    expect("pictures are left out", with_pictures == plain)
    expect("pictures are listed once", shown.count("left out 2 files (.bin, .png): c.png, d.bin") == 1, shown)
    for args in (["eval", LLAMA, "--data", data], ["generate", LLAMA, "--prompts", data, "--max-tokens", 1]):
        done = weft(*args)
        expect(f"{args[0]} lists pictures as well", done.returncode == 0 and done.stderr.count("left out 2 files") == 1, done.stderr)
    done = weft("eval", LLAMA, "--data", data / "c.png")
    expect("a picture by name is an error", done.returncode == 2 and "c.png: is not UTF-8 at byte 0; expected text" in done.stderr, done.stderr)


def killed_run(folder, text):
    cache = folder / "killed"
    incomplete = lambda: list(cache.glob("tokens-*/*.incomplete"))
    run = subprocess.Popen(planning(text, cache), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while run.poll() is None and not incomplete():
        time.sleep(0.0003)
    run.send_signal(signal.SIGKILL)
    run.wait()
    expect("a run was killed while it tokenised", incomplete() and not list(cache.glob("*/weft-prepared.json")))
    small = folder / "small.txt"
    small.write_text("Other data, the same cache. " * 10)
    done = subprocess.run(planning(small, cache), capture_output=True, text=True)
    expect("the next run removes the partial file", done.returncode == 0 and not incomplete(), done.stderr)


def two_concurrent_runs(folder, text):
    cache = folder / "shared"
    runs = [subprocess.Popen(planning(text, cache, "--threads", str(threads)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for threads in (1, 2)]
    errors = [run.communicate()[1] for run in runs]
    expect("two runs tokenise the same text concurrently", all(run.returncode == 0 for run in runs), errors)
    expect("concurrent runs leave one file", len(list(cache.iterdir())) == 1 and len(tokens(cache)) == 1, list(cache.iterdir()))
    expect("concurrent runs give the ids of a single run", list(tokens(cache).values())[0] == ids_of(text, folder)[0])


with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    forms_of_json(folder)
    folder_with_pictures(folder)
    text = folder / "text.txt"
    text.write_text("".join(f"Line {i} of a long text, with {i * i % 977} words; it goes on.\n" for i in range(80000)))
    killed_run(folder, text)
    two_concurrent_runs(folder, text)
finish()
