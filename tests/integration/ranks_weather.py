"""ranks_weather.py TOOL SOURCE [long]: bad weather under mpirun: what differs between ranks, what cannot be read or written, a stopped rank, a loss that is not finite. Each
has one message and the right exit code, and nothing hangs."""
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile

from checks import expect, finish
from mpi import Run, need_mpi, run, small, tool
from safetensors_file import change_tensor, forbid_token

need_mpi()
source = pathlib.Path(sys.argv[2]).resolve()
HOST = socket.gethostname()
FAILED, USAGE = 1, 2
TEXT = "".join(f"Line {i} of a text, which is long enough for some sequences.\n" for i in range(60))


def by_rank(folder, rank, first="", tail=""):
    """A wrapper: on this rank `first` is run before the tool, and `tail` added to its arguments."""
    script = folder / "wrapper"
    script.write_text(f"""#!/bin/bash
if [ "$OMPI_COMM_WORLD_RANK" = {rank} ]; then {first or ":"}; set -- "$@" {tail}; fi
exec "$@"
""")
    script.chmod(0o755)
    return [script]


def fails(what, job, *words, code=USAGE, within=90):
    lines = job.said()
    expect(what, job.code == code and len(lines) == 1 and all(word in lines[0] for word in words) and job.seconds < within, job.shown())


def settings(folder):
    arguments = small("--out", "run", "--steps", 3, "--batch", 4)
    fails("too few micro-batches", run(folder, 4, *small("--out", "run", "--batch", 2)), "--batch", "4 ranks")
    fails("an unknown model", run(folder, 3, *small("--out", "run", "--model", "llama-tony")), "llama-tony", "llama-tiny")
    fails("a wrong value", run(folder, 2, *arguments, "--timeout", 0), "timeout", "0")
    fails("--ranks without --plan", run(folder, 2, *arguments, "--ranks", 2), "--plan", "mpirun")
    fails("an unknown flag", run(folder, 2, *arguments, "--learning-rat", 1), "--learning-rat")
    fails("an unknown flag on one rank", run(folder, 2, *arguments, wrapper=by_rank(folder, 1, tail="--learning-rat 1")),
          f"rank 1 on {HOST}", "--learning-rat")
    fails("another setting on one rank", run(folder, 2, *arguments, wrapper=by_rank(folder, 1, tail="--seed 5")), "seed", f"rank 0 on {HOST} has 0",
          f"rank 1 on {HOST} has 5")
    fails("no such config on one rank", run(folder, 2, *arguments, wrapper=by_rank(folder, 1, tail="--resume")), f"rank 1 on {HOST}", "config.toml")
    shown = run(folder, 2, "--help")
    expect("--help is printed once", shown.code == 0 and shown.text().count("--shard") == 1, shown.shown())
    expect("nothing was begun", not (folder / "run").exists(), list(folder.iterdir()))


def files(folder):
    (folder / "a.txt").write_text(TEXT)
    (folder / "b.txt").write_text(TEXT.replace("Line 7 ", "Line 8 "))
    def arguments(data):
        return small("--out", "run", "--steps", 3, "--batch", 4, "--sequence", 32, "--cache", "cache", "--data", data)

    (folder / "other").mkdir()
    (folder / "other/data.txt").write_text((folder / "b.txt").read_text())
    (folder / "data.txt").write_text(TEXT)
    fails("other data on one rank", run(folder, 2, *arguments("data.txt"), wrapper=by_rank(folder, 1, first="cd other")), "same data", "rank 0", "rank 1")
    (folder / "none").mkdir()
    fails("no data on one rank", run(folder, 3, *arguments("data.txt"), wrapper=by_rank(folder, 2, first="cd none")), f"rank 2 on {HOST}", "data.txt")
    fails("no data at all", run(folder, 3, *arguments("missing.txt")), "weft: missing.txt")
    fails("a folder that cannot be made", run(folder, 2, *small("--steps", 3, "--batch", 4, "--out", "a.txt/run")), "a.txt/run")
    copy = folder / "weft"
    shutil.copy(tool, copy)
    with open(copy, "ab") as changed:
        changed.write(b"\n")
    script = by_rank(folder, 1, first=f'shift; set -- {copy} "$@"')
    fails("another build on one rank", run(folder, 2, *arguments("a.txt"), wrapper=script), "same build", "rank 0", "rank 1")
    model = source / "tests/golden/models/llama"
    for copied in (folder / "llama", folder / "other/llama"):
        shutil.copytree(model, copied)
    change_tensor(folder / "other/llama/model.safetensors", "model.norm.weight", lambda values, _: [1.5, *values[1:]])
    (folder / "other/a.txt").write_text(TEXT)
    tuned = ["--model", "llama", "--out", "run", "--steps", 3, "--batch", 4, "--pass-tokens", 1, "--sequence", 16, "--cache", "cache", "--data", "a.txt"]
    fails("another model on one rank", run(folder, 2, *tuned, wrapper=by_rank(folder, 1, first="cd other")), "same weights", "rank 0", "rank 1")
    other = by_rank(folder, 1, first="export WEFT_BF16_DOT=emulated")
    fails("other arithmetic on one rank", run(folder, 2, *arguments("a.txt"), wrapper=other), "same arithmetic", "rank 0", "rank 1")
    expect("nothing was begun", not (folder / "run").exists(), list(folder.iterdir()))


def full_disk(folder, arguments, limit, *words):
    """Files of rank 0 may have so many bytes from its first step on."""
    job = Run(folder, 2, *arguments)
    if job.wait_for(lambda: job.steps() >= 1):
        resource.prlimit(job.pids()[0], resource.RLIMIT_FSIZE, (limit, limit))
    fails(f"files of at most {limit} bytes", job.wait(), *words)


def checkpoints(folder):
    arguments = small("--out", "run", "--steps", 4, "--batch", 4, "--save-every", 2, "--evaluate-every", 0, "--sample-tokens", 0)
    done = run(folder, 2, *arguments)
    expect("a run", done.code == 0, done.shown())
    kept = sorted(p.name for p in (folder / "run/checkpoints").iterdir())
    fails("a run that is there already", run(folder, 2, *arguments), "already holds a run")
    longer = [*small("--out", "run", "--batch", 4, "--save-every", 50, "--evaluate-every", 0, "--sample-tokens", 0, "--steps", 2000), "--resume"]
    # Rank 1 sees another folder of the same name, as on a host with a disk of its own.
    shutil.copytree(folder / "run", folder / "other/run")
    newest = folder / "other/run/checkpoints" / kept[-1]
    whole = newest.read_bytes()
    there = by_rank(folder, 1, first="cd other")
    newest.write_bytes(whole[:-100])
    fails("a truncated checkpoint on one rank", run(folder, 2, *longer, wrapper=there), f"rank 1 on {HOST}", kept[-1])
    newest.write_bytes(whole[:-100] + bytes(100))
    fails("a damaged checkpoint on one rank", run(folder, 2, *longer, wrapper=there), f"rank 1 on {HOST}", kept[-1], "damaged")
    for limit in (20_000, 1):  # of a checkpoint, or of the report where that is written first: it is due by the clock
        full_disk(folder, longer, limit, "weft: run/", "File too large")
    expect("the checkpoints stay", sorted(p.name for p in (folder / "run/checkpoints").iterdir()) == kept, list((folder / "run/checkpoints").iterdir()))
    last = run(folder, 4, *small("--out", "run", "--batch", 4, "--steps", 8), "--resume")
    expect("then it goes on", last.code == 0, last.shown())


def stopped(folder):
    """SIGSTOP of a rank ends the run after --timeout."""
    job = Run(folder / "stopped", 3, *small("--out", "run", "--steps", 100000, "--batch", 3, "--timeout", 5))
    if job.wait_for(lambda: job.steps() >= 3):
        os.kill(job.pids()[1], signal.SIGSTOP)
    job.wait()
    lines = job.said()
    expect("rank 1 is stopped", job.code != 0 and len(lines) == 1 and f"rank 1 on {HOST} did not answer within 5 s" in lines[0] and
           job.seconds < 150, job.shown())


def error_in_a_step(folder):
    """The tokens of rank 1 are overwritten while it trains: an id out of range is a damaged file, and ends all ranks."""
    (folder / "other").mkdir()
    for at in (folder, folder / "other"):
        (at / "text.txt").write_text(TEXT)
    job = Run(folder, 2, *small("--out", "run", "--steps", 100000, "--batch", 4, "--sequence", 16, "--data", "text.txt", "--cache", "cache", "--timeout", 60),
              wrapper=by_rank(folder, 1, first="cd other"))
    if job.wait_for(lambda: job.steps() >= 3):
        cache = next((folder / "other/cache").glob("tokens-*/shard-00000.tokens"))
        with open(cache, "r+b") as ids:
            ids.seek(cache.stat().st_size // 4)
            ids.write(b"\xff" * (cache.stat().st_size // 2))
    job.wait()
    lines = job.said()
    named = len(lines) == 1 and f"rank 1 on {HOST}: " in lines[0] and "is damaged" in lines[0]
    expect("an error in a step", job.code == USAGE and named and job.seconds < 60, job.shown())


def slow_work(folder):
    """Evaluations longer than --timeout, of all ranks and of rank 0 alone (samples), do not end the run."""
    (folder / "text.txt").write_text("".join(f"{i} is a number, {i * i} its square. " for i in range(40_000)))
    job = run(folder, 3, *small("--out", "run", "--steps", 2, "--batch", 3, "--data", "text.txt", "--cache", "cache", "--sequence", 64, "--context", 4000,
                                "--validation", 0.8, "--evaluate-units", 0, "--sample-tokens", 3900, "--timeout", 5, "--width", 256, "--layers", 2))
    expect("work longer than the timeout", job.code == 0 and job.seconds > 20 and not job.said(), job.shown())


def not_finite_weights(folder):
    """An update that leaves infinite weights: found when they are saved, by all ranks alike."""
    job = run(folder, 2, *small("--out", "run", "--steps", 6, "--batch", 4, "--save-every", 1, "--optimizer", "sgd", "--clip", 0, "--weight-decay", 0,
                                "--learning-rate", 1e39, "--warmup", 0))
    fails("weights that are not finite", job, "weight", "not finite before the step", "capture-", code=FAILED)


def not_finite(folder):
    """A token whose logit is minus infinity, in one of four sequences: the loss of one micro-batch is infinite."""
    length, sequences = 16, 4
    words = "abcdefghijklmno " * (sequences * length // 16) + "a"
    (folder / "plain.txt").write_text(words[:20] + "Z" + words[21:])
    shape = ["--model", "gpt2-124m", "--layers", 1, "--width", 32, "--heads", 2]
    data = ["--data", "plain.txt", "--sequence", length, "--validation", 0, "--batch", sequences, "--pass-tokens", 1, "--cache", "cache",
            "--sample-tokens", 0, "--steps", 2]
    first = run(folder, 1, "--out", "base", *shape, *data)
    expect("a base model", first.code == 0, first.shown())
    forbid_token(folder / "base/model", "Z")
    messages = {}
    for ranks in (1, 4):
        job = run(folder, ranks, "--out", f"run{ranks}", "--model", "base/model", *data)
        lines = job.said()
        expect(f"not finite on {ranks} ranks", job.code == FAILED and len(lines) == 1 and re.search("step 1 gave a loss of (inf|nan)", lines[0]), job.shown())
        messages[ranks] = lines[0] if lines else ""
    found = {ranks: re.search(r"; (?:rank (\d+) on [^:]+: )?(\w+: .*? \(tensor \d+ of the micro-batch that starts at sequence (\d)\))", text)
             for ranks, text in messages.items()}
    expect("the tensor is named", all(found.values()), messages)
    if not all(found.values()):
        return
    expect("the same tensor for all", len({match[2] for match in found.values()}) == 1, messages)
    expect("the rank is the one of the sequence", found[4][1] and int(found[4][1]) == int(found[4][3]) - 1, messages)
    capture = folder / "run4/capture-1.safetensors"
    said = json.loads(capture.read_bytes()[8:8 + struct.unpack("<Q", capture.read_bytes()[:8])[0]])["__metadata__"]
    expect("the capture names rank and tensor", f"rank {found[4][1]} on {HOST}" in said.get("bad", "") and found[4][2] in said["bad"], said.get("bad"))
    again = run(folder, 1, "--replay", capture)
    expect("one process repeats it", again.code == 0 and found[4][2] in again.text(), again.shown())


PARTS = [settings, files, checkpoints, stopped, error_in_a_step, not_finite_weights, not_finite, *([slow_work] if "long" in sys.argv else [])]
with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(3) as pool:  # ranks start slowly, and mostly wait
    jobs = []
    for part in PARTS:
        at = pathlib.Path(folder) / part.__name__
        at.mkdir()
        jobs.append(pool.submit(part, at))
    for job in jobs:
        job.result()
finish()
