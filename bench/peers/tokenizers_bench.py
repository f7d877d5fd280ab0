#!/usr/bin/env python3
"""Our tokenizer beside the `tokenizers` library, where it is installed.

    cmake --build build/release --target bench_tokenizer
    python3 bench/peers/tokenizers_bench.py speed [--file TEXT] [--rounds 5] [FOLDER...]     MB/s, both on one core, ours also on all
    python3 bench/peers/tokenizers_bench.py compare FOLDER...                               ids and texts of 2100 texts, equal or not

A folder has a tokenizer.json; without any, those of tests/golden/tokenizers are measured. Without --file, the text is that of this
tree's documents and sources, or with --multilingual the golden texts many times. The two libraries run in turns, and the best of
the rounds counts.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
try:
    import tokenizers
except ImportError:
    sys.exit("tokenizers_bench.py: the tokenizers library is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/tokenizers"


def ours(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{program}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def best(rounds, body):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        body()
        times.append(time.perf_counter() - start)
    return min(times)


def own_text():
    files = subprocess.run(["git", "ls-files", "*.md", "*.cpp", "*.h", "*.py", "*.cu"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    return "\n\n".join((ROOT / name).read_text() for name in files if name and "golden" not in name)


def speed(options):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        text = pathlib.Path(options.file).read_text() if options.file else own_text()
        if options.multilingual:
            text = "\n\n".join(json.loads((GOLDEN / "texts.json").read_text()) * 20)
        file.write(text)
        file.flush()
        paragraphs = [part for part in text.split("\n\n")]
        size = len(text.encode()) / 1e6
        print(f"{size:.1f} MB; tokenizers {tokenizers.__version__}; MB/s, best of {options.rounds}")
        print(f"{'':14}{'paragraphs':>21}{'as one text':>21}   training data")
        print(f"{'':14}{'theirs':>9}{'ours':>7}{'ratio':>6}{'theirs':>9}{'ours':>7}{'ratio':>6}   {options.threads} threads (1 thread)")
        for folder in options.folders or sorted(path.parent for path in GOLDEN.glob("*/tokenizer.json")):
            tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
            tokenizer.no_truncation(), tokenizer.no_padding()
            theirs, mine, one_thread = [1e9, 1e9], [1e9, 1e9, 1e9], 1e9
            for _ in range(options.rounds):  # in turns: the machine may be busy
                each = best(1, lambda: [tokenizer.encode(part, add_special_tokens=False) for part in paragraphs])
                batch = best(1, lambda: tokenizer.encode_batch_fast(paragraphs, add_special_tokens=False))
                theirs = [min(theirs[0], each, batch), min(theirs[1], best(1, lambda: tokenizer.encode(text, add_special_tokens=False)))]
                got = ours(options.program, "speed", folder, file.name, options.threads, 1)[0]
                mine = [min(a, got[b]) for a, b in zip(mine, ("paragraphs", "whole", "data"))]
                one_thread = min(one_thread, ours(options.program, "speed", folder, file.name, 1, 1)[0]["data"])
            rates = [(size / t, size / m, t / m) for t, m in zip(theirs, mine)]
            print(f"{pathlib.Path(folder).name:14}" + "".join(f"{t:9.1f}{m:7.1f}{r:6.1f}" for t, m, r in rates) + f"   {size / mine[2]:.1f} ({size / one_thread:.1f})", flush=True)


def compare(options):
    texts = json.loads((GOLDEN / "texts.json").read_text())
    wrong = 0
    for folder in options.folders:
        tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
        tokenizer.no_truncation(), tokenizer.no_padding()
        names = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        more = [f"{a} {name}{b}" for name in names[:60] for a, b in (("x", "  y"), ("", ""), ("x", " \nx"))]
        with tempfile.TemporaryDirectory() as temporary:  # the tokenizer.json alone: the library reads nothing else
            place = pathlib.Path(temporary)
            (place / "tokenizer.json").write_bytes((pathlib.Path(folder) / "tokenizer.json").read_bytes())
            (place / "texts.json").write_text(json.dumps(texts + more))
            got = ours(options.program, "encode", place, place / "texts.json")
        counts = dict.fromkeys(("ids", "decoded", "skipped", "streamed", "wrong_cuts"), 0)
        shown = 0
        for text, mine in zip(texts + more, got, strict=True):
            ids = tokenizer.encode(text).ids
            theirs = {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False), "skipped": tokenizer.decode(ids, skip_special_tokens=True)}
            theirs["streamed"], theirs["wrong_cuts"] = theirs["decoded"], 0
            for key in counts:
                counts[key] += mine[key] != theirs[key]
                if mine[key] != theirs[key] and shown < options.show:
                    shown += 1
                    print(f"  {key} of {text!r}\n    ours   {mine[key]!r}\n    theirs {theirs[key]!r}")
        wrong += any(counts.values())
        print(f"{folder}: {len(got)} texts, {sum(mine['places'] for mine in got)} cuts, different: " + (", ".join(f"{key} {n}" for key, n in counts.items() if n) or "none"))
    sys.exit(wrong > 0)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("what", choices=["speed", "compare"])
parser.add_argument("folders", nargs="*")
parser.add_argument("--file")
parser.add_argument("--multilingual", action="store_true")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("--show", type=int, default=3)
parser.add_argument("--program", default=str(ROOT / "build/release/bench/peers/bench_tokenizer"))
options = parser.parse_intermixed_args()
speed(options) if options.what == "speed" else compare(options)
