#!/usr/bin/env python3
"""`weft tokenizer train` beside the BpeTrainer of the `tokenizers` library, where it is installed.

    python3 bench/peers/tokenizer_training_bench.py build/release/cli/weft CORPUS.jsonl [--vocab 32000] [--pattern gpt2] [--rounds 3]

The two run in turns, each in a process of its own with all cores; times are those of the whole process, memory is the peak of its
anonymous pages. Ends with an error unless vocabulary and merges are equal.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def peer(corpus, vocab, pattern, out):
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if pattern == "gpt2" else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=int(vocab), special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    with open(corpus) as lines:
        tokenizer.train_from_iterator((json.loads(line)["text"] for line in lines), trainer)
    tokenizer.save(out)


def measured(command):
    """Seconds of wall clock, and MiB of anonymous pages at most."""
    start, most = time.perf_counter(), 0
    run = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    while run.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{run.pid}/status").read_text()
            most = max(most, next((int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")), 0))
        except OSError:
            pass
        time.sleep(0.02)
    if run.returncode:
        sys.exit(f"{command}: exit {run.returncode}")
    return time.perf_counter() - start, most // 1024


def learned(path):
    model = json.loads(path.read_text())["model"]
    return model["vocab"], [list(merge) for merge in model["merges"]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("corpus")
    parser.add_argument("--vocab", default=32000)
    parser.add_argument("--pattern", default="gpt2")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for turn in range(options.rounds):
        with tempfile.TemporaryDirectory() as name:
            theirs, ours = pathlib.Path(name) / "theirs.json", pathlib.Path(name) / "ours"
            ours_s, ours_mib = measured([options.tool, "tokenizer", "train", "--data", options.corpus, "--vocab", options.vocab, "--pattern", options.pattern, "--out", ours])
            theirs_s, theirs_mib = measured([sys.executable, __file__, "peer", options.corpus, options.vocab, options.pattern, theirs])
            if learned(theirs) != learned(ours / "tokenizer.json"):
                sys.exit("vocabulary or merges differ")
            print(f"turn {turn + 1}: weft {ours_s:.1f} s, {ours_mib} MiB; tokenizers {theirs_s:.1f} s, {theirs_mib} MiB; {theirs_s / ours_s:.1f}x; equal", flush=True)


if __name__ == "__main__":
    peer(*sys.argv[2:]) if sys.argv[1:2] == ["peer"] else main()
