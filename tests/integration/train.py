"""weft train from the command line: what it prints, what it leaves, and what it says when something is wrong."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

tool = sys.argv[1]
passed = failed = 0
SMALL = ["--width", "32", "--batch", "1", "--sums-rows", "16", "--warmup", "2", "--evaluate-every", "0"]


def expect(what, ok, shown=""):
    global passed, failed
    passed += bool(ok)
    failed += not ok
    if not ok:
        print(f"FAILED {what}: {shown}")


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
    expect("says what it learnt", "% of unseen sums right" in run.stdout and "report.html" in run.stdout, run.stdout)
    expect("plain lines", "6/6 loss" in run.stderr and "\r" not in run.stderr, run.stderr)
    metrics = [json.loads(line) for line in (folder / "a/metrics.jsonl").read_text().splitlines()]
    expect("metrics", [m["step"] for m in metrics if "loss" in m] == [1, 2, 3, 4, 5, 6], metrics)
    expect("event file", any(p.name.startswith("events.out.tfevents.") for p in (folder / "a").iterdir()))
    again = train("--config", folder / "a/config.toml", "--out", folder / "b")
    expect("the resolved config is a run", again.returncode == 0, again.stderr)
    same = (folder / "a/model/model.safetensors").read_bytes() == (folder / "b/model/model.safetensors").read_bytes()
    expect("the same run gives the same bytes", same)

    plan = train("--plan", "--model", "gpt2-124m")
    expect("plan", plan.returncode == 0 and all(w in plan.stdout for w in ("weights", "gradients", "optimizer", "activations", "workspace", "FLOP")), plan.stdout)
    fails("a run that cannot fit", train("--plan", "--layers", 8, "--heads", 128, "--width", 25600, "--ffn", 400000), "needs", "free")

    fails("unknown device", train("--device", "abacus", "--out", folder / "c"), "abacus")
    fails("unknown model", train("--model", "llama-tony", "--out", folder / "c"), "llama-tony", "llama-tiny")
    fails("no such data", train("--data", folder / "none.txt", "--out", folder / "c"), "none.txt")
    (folder / "empty.txt").write_text("")
    fails("empty data", train("--data", folder / "empty.txt", "--out", folder / "c"), "empty.txt", "empty")
    (folder / "short.txt").write_text("a few words")
    fails("short data", train("--data", folder / "short.txt", "--out", folder / "c"), "short.txt", "less than one sequence")
    (folder / "bad.jsonl").write_text('{"text": "fine"}\n{"text": oops}\n')
    fails("malformed JSONL", train("--data", folder / "bad.jsonl", "--out", folder / "c"), "bad.jsonl:2")
    (folder / "latin.txt").write_bytes(b"caf\xe9 " * 100)
    fails("no UTF-8", train("--data", folder / "latin.txt", "--out", folder / "c"), "latin.txt", "UTF-8", "byte 3")
    (folder / "bad.toml").write_text("steps = 3\nbatch = = 2\n")
    fails("malformed TOML", train("--config", folder / "bad.toml"), "bad.toml:2")
    (folder / "typo.toml").write_text("steps = 3\nlearning_rat = 2\n")
    fails("unknown key", train("--config", folder / "typo.toml"), "typo.toml:2", "learning_rat", "learning_rate")
    typo = train("--learning-rat", 3)
    expect("unknown flag", typo.returncode == 2 and "--learning-rat" in typo.stderr, typo.stderr)
    fails("a folder with a run in it", train("--out", folder / "a", "--steps", 6, *SMALL), "already holds a run", "--resume")
    fails("another model", train("--out", folder / "a", "--resume", "--steps", 6, "--width", 64, *SMALL[2:]), "width is 64")

    # Ctrl-C: a checkpoint and a clean end; the run then goes on.
    process = subprocess.Popen([tool, "train", "--out", str(folder / "stopped"), "--steps", "100000", *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (folder / "stopped/metrics.jsonl").exists() or "loss" not in (folder / "stopped/metrics.jsonl").read_text():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    expect("Ctrl-C ends cleanly", process.returncode == 0 and "stopped after step" in out, out + err)
    expect("Ctrl-C saves", len(checkpoints(folder / "stopped")) == 1, checkpoints(folder / "stopped"))
    step = int(checkpoints(folder / "stopped")[0].split("-")[1].split(".")[0])
    more = train("--out", folder / "stopped", "--resume", "--steps", step + 2, *SMALL)
    expect("and goes on", more.returncode == 0 and f"going on after step {step}" in more.stderr, more.stderr)

    # A damaged newest checkpoint: the one before it is used, and that is said.
    newest = folder / "a/checkpoints" / checkpoints(folder / "a")[-1]
    newest.write_bytes(newest.read_bytes()[:-10])
    more = train("--out", folder / "a", "--resume", "--steps", 6, "--save-every", 3, *SMALL)
    expect("damaged checkpoint", more.returncode == 0 and newest.name in more.stderr and "going on after step 3" in more.stderr, more.stderr)

    # A full disk, and one that cannot be written: needs to mount.
    small = folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", small], capture_output=True).returncode == 0:
        try:
            result = train("--out", small / "run", "--steps", 200, "--save-every", 1, "--keep", 5, *SMALL)
            fails("a full disk", result, "No space left on device")
            kept = checkpoints(small / "run")
            expect("keeps the last good checkpoint", kept and all(n.endswith(".safetensors") for n in kept), kept)
            subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
            last = int(kept[-1].split("-")[1].split(".")[0])
            more = train("--out", small / "run", "--resume", "--steps", last + 1, *SMALL)
            expect("and goes on from it", more.returncode == 0 and f"going on after step {last}" in more.stderr, more.stderr)
            subprocess.run(["mount", "-o", "remount,ro", small], check=True)
            fails("a read-only folder", train("--out", small / "other", *SMALL), "Read-only file system")
        finally:
            subprocess.run(["umount", small], check=True)
    else:
        print("skipped: a full disk and a read-only folder (mounting is not allowed here)")

print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
