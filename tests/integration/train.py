"""weft train from the command line: its output, its files, and stopping it. terminal.py has the tests that need a terminal."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from checks import expect, finish

tool = sys.argv[1]
SMALL = ["--width", "32", "--batch", "1", "--sums-rows", "16", "--warmup", "2", "--evaluate-every", "0"]


def train(*args, timeout=120, **more):
    return subprocess.run([tool, "train", *map(str, args)], capture_output=True, text=True, timeout=timeout, **more)


def fails(what, result, *parts):
    lines = result.stderr.strip().splitlines()
    ok = result.returncode not in (0, -6, -11) and lines and all(part in lines[-1] for part in parts)
    expect(what, ok, f"exit {result.returncode}, {result.stderr.strip()[-300:]}")


def checkpoints(out):
    return sorted(p.name for p in (out / "checkpoints").iterdir())


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    os.environ["WEFT_CACHE"] = str(folder / "cache")

    run = train("--out", folder / "a", "--steps", 6, "--save-every", 3, "--log-every", 2, *SMALL)
    expect("a small run", run.returncode == 0, run.stderr)
    expect("it prints the accuracy and the report", "% of unseen sums right" in run.stdout and "report.html" in run.stdout, run.stdout)
    expect("plain lines without a terminal", "6/6 loss" in run.stderr and "\r" not in run.stderr, run.stderr)
    metrics = [json.loads(line) for line in (folder / "a/metrics.jsonl").read_text().splitlines()]
    expect("metrics", [m["step"] for m in metrics if "loss" in m] == [1, 2, 3, 4, 5, 6], metrics)
    expect("event file", any(p.name.startswith("events.out.tfevents.") for p in (folder / "a").iterdir()))
    again = train("--config", folder / "a/config.toml", "--out", folder / "b")
    expect("the written config starts the same run", again.returncode == 0, again.stderr)
    same = (folder / "a/model/model.safetensors").read_bytes() == (folder / "b/model/model.safetensors").read_bytes()
    expect("the same run gives the same bytes", same)

    plan = train("--plan", "--model", "gpt2-124m")
    expect("plan", plan.returncode == 0 and all(w in plan.stdout for w in ("weights", "gradients", "optimizer", "activations", "workspace", "FLOP")), plan.stdout)
    fails("a run that cannot fit", train("--plan", "--layers", 8, "--heads", 128, "--width", 25600, "--ffn", 400000), "needs", "free")

    # Ctrl-C saves a checkpoint and ends cleanly; the run can be resumed.
    process = subprocess.Popen([tool, "train", "--out", str(folder / "stopped"), "--steps", "100000", *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (folder / "stopped/metrics.jsonl").exists() or "loss" not in (folder / "stopped/metrics.jsonl").read_text():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    expect("Ctrl-C ends cleanly", process.returncode == 0 and "stopped after step" in out, out + err)
    expect("Ctrl-C saves", len(checkpoints(folder / "stopped")) == 1, checkpoints(folder / "stopped"))
    step = int(checkpoints(folder / "stopped")[0].split("-")[1].split(".")[0])
    expect("Ctrl-C prints how to resume", f"weft train --resume --out {folder / 'stopped'} continues" in out, out)
    more = train("--out", folder / "stopped", "--resume", "--steps", step + 2)
    expect("the stopped run is resumed", more.returncode == 0 and f"resuming after step {step}" in more.stderr and f"steps is now {step + 2}, it was 100000" in more.stderr, more.stderr)

    # If the reader of the output exits first, the run saves and ends, too.
    process = subprocess.Popen([tool, "train", "--out", str(folder / "piped"), "--steps", "100000", *SMALL], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    process.stderr.readline()
    process.stderr.close()
    process.wait(timeout=60)
    expect("a closed pipe ends cleanly", process.returncode == 0 and len(checkpoints(folder / "piped")) == 1, process.returncode)

    # A closed stream leaves its number to the next file; messages must not land there.
    closed = subprocess.run(["bash", "-c", '"$@" <&- >&- 2>&-', "-", tool, "train", "--out", str(folder / "closed"), "--steps", "3", *SMALL], timeout=60)
    written = [p for p in (folder / "closed").rglob("*") if p.is_file()]
    expect("closed streams", closed.returncode == 0 and len(written) > 5 and not any(b"tok/s" in p.read_bytes() for p in written), written)

    heavy = ["--width", "384", "--layers", "6", "--heads", "6", "--sums-rows", "64", "--batch", "5000", "--evaluate-every", "0"]
    # Both signals are pending while the process is stopped, so that the second arrives before the first is handled.
    process = subprocess.Popen([tool, "train", "--out", str(folder / "twice"), *heavy], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (folder / "twice/metrics.jsonl").exists():
        time.sleep(0.05)
    for sent in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        process.send_signal(sent)
    process.communicate(timeout=60)
    expect("a second Ctrl-C ends at once", process.returncode == 130, process.returncode)

    # Tokenising that is stopped leaves no partial file in the cache.
    (folder / "long.jsonl").write_text('{"text": "a document of some words"}\n' * 200000)
    process = subprocess.Popen([tool, "train", "--out", str(folder / "tokens"), "--data", str(folder / "long.jsonl"), *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "tokenising" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    expect("a stop while data is tokenised", process.returncode == 0 and "stopped before the first step" in out, out + err)
    left = [p.name for p in (folder / "cache").iterdir()]
    expect("no partial file in the cache", not any(name.endswith(".incomplete") for name in left), left)

finish()
