"""A run killed with SIGKILL at twenty seeded moments, checkpoint writes included, ends with the bytes of one that was not."""
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

tool = sys.argv[1]
KILLS = 20


def command(out, *more):
    return [tool, "train", "--out", str(out), "--steps", "60", "--save-every", "2", "--batch", "2", "--sums-rows", "16", "--width", "32", "--warmup", "5",
            "--evaluate-every", "0", "--dropout", "0.1", "--optimizer", "adamw", *more]


def weights(out):
    return (out / "model" / "model.safetensors").read_bytes()


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    start = time.time()
    subprocess.run(command(folder / "whole"), check=True, capture_output=True)
    whole = time.time() - start
    chance = random.Random(6)
    kills = runs = 0
    while kills < KILLS:
        out = folder / f"killed{runs}"
        runs += 1
        more = []
        while True:
            process = subprocess.Popen(command(out, *more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            # Some at once, most while steps and checkpoints follow each other.
            try:
                process.wait(timeout=chance.uniform(0.02, 0.6 * whole) if kills < KILLS else None)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                more = ["--resume"]
                continue
            error = process.stderr.read().decode()
            if process.returncode != 0:
                sys.exit(f"a resumed run failed: {error}")
            break
        if weights(out) != weights(folder / "whole"):
            sys.exit(f"run {runs}, killed: its weights differ from the uninterrupted run's")
        left = [p.name for p in (out / "checkpoints").iterdir() if p.name.endswith(".incomplete")]
        if left:
            sys.exit(f"half-written checkpoints were left behind: {left}")
print(f"{kills} kills in {runs} runs: 1 passed, 0 failed")
