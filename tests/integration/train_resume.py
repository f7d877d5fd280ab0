"""Bytewise equal weights: killed with SIGKILL at twenty seeded moments and resumed, stopped with SIGTERM inside steps and
resumed, for any number of threads, and for any micro-batch size."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

tool = sys.argv[1]
KILLS = 20
SMALL = ["--layers", "1", "--width", "32", "--heads", "2", "--sums-rows", "8", "--warmup", "5", "--evaluate-every", "0", "--dropout", "0.1"]
passed = 0


def command(out, *more, steps=60, batch=2):
    return [tool, "train", "--out", str(out), "--steps", str(steps), "--save-every", "1", "--batch", str(batch), *SMALL, *map(str, more)]


def train(out, *more, **sizes):
    done = subprocess.run(command(out, *more, **sizes), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{out.name}: exit {done.returncode}: {done.stderr[-300:]}")
    return weights(out)


def weights(out):
    return (out / "model/model.safetensors").read_bytes()


def same(what, a, b):
    global passed
    if a != b:
        sys.exit(f"FAILED {what}: the weights differ")
    passed += 1


def half_written(out):
    folder = out / "checkpoints"
    return [p.name for p in folder.iterdir() if p.name.endswith(".incomplete")] if folder.exists() else []


class Run:
    """A run in the background with its log."""

    def __init__(self, out, *more, **sizes):
        self.out, self.log = out, out.with_suffix(".log")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command(out, "--log-every", 1, *more, **sizes), stdout=subprocess.PIPE, stderr=log, text=True)

    def wait_for(self, what):
        while self.process.poll() is None and not what():
            time.sleep(0.0003)
        return self.process.poll() is None

    def steps_began(self):
        return " loss " in self.log.read_text()

    def reach(self, chance, duration):
        """Waits for a seeded moment: one in five during the start, the others among the steps, half of those until the next
        checkpoint is written. False: the run ended before."""
        starting, writing = chance.random() < 0.2, chance.random() < 0.5
        if not starting and not self.wait_for(self.steps_began):
            return False
        until = time.monotonic() + chance.uniform(0, 0.5 * duration)
        return self.wait_for(lambda: time.monotonic() >= until) and (starting or not writing or self.wait_for(lambda: half_written(self.out)))


def duration_of_steps(out):
    run = Run(out)
    run.wait_for(run.steps_began)
    start = time.monotonic()
    run.process.wait()
    return time.monotonic() - start


def resumed(out):
    """--resume, unless the run was killed before it wrote its settings."""
    return ["--resume"] if (out / "config.toml").exists() else []


def killed_and_resumed(folder, reference, duration):
    chance = random.Random(6)
    kills = writes = runs = 0
    while kills < KILLS:
        out, more = folder / f"killed{runs}", []
        runs += 1
        while kills < KILLS:
            run = Run(out, *more)
            if not run.reach(chance, duration):
                break
            run.process.send_signal(signal.SIGKILL)
            run.process.wait()
            kills += 1
            writes += bool(half_written(out))
            more = resumed(out)
        same(f"killed run {runs}", train(out, *resumed(out)), reference)
        if half_written(out):
            sys.exit(f"partial checkpoints were left behind: {half_written(out)}")
    print(f"{kills} kills in {runs} runs, {writes} of them while a checkpoint was being written")


def stopped_inside_steps(folder):
    """Steps of a hundred micro-batches: a signal arrives inside one. That step is dropped, the one before it saved."""
    long, steps_in_all = ["--pass-tokens", "1"], 24  # one sequence per micro-batch; on a busy machine a signal is several steps late
    reference = train(folder / "long", *long, steps=steps_in_all, batch=120)
    out, more, last = folder / "stopped", [], 0
    for _ in range(3):
        run = Run(out, *long, *more, steps=steps_in_all, batch=120)
        run.wait_for(run.steps_began)
        run.process.send_signal(signal.SIGTERM)
        said, _ = run.process.communicate(timeout=120)
        steps = [record["step"] for record in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in record]
        saved = out / f"checkpoints/checkpoint-{steps[-1]:010d}.safetensors"
        if run.process.returncode != 0 or f"stopped after step {steps[-1]};" not in said or not saved.exists():
            sys.exit(f"FAILED stopped inside step {steps[-1] + 1}: exit {run.process.returncode}, {said}")
        if not last < steps[-1] < steps_in_all:
            sys.exit(f"FAILED stopped: it went from step {last} to {steps[-1]}")
        last, more = steps[-1], ["--resume"]
    same("stopped inside steps", train(out, "--resume", *long, steps=steps_in_all, batch=120), reference)


def other_arithmetic_is_said(folder):
    """A checkpoint knows what its bits depend on: a run that is continued by other arithmetic says so, an equal one does not."""
    global passed
    out = folder / "arithmetic"
    for steps, dot, said in ((2, "none", False), (3, "none", False), (4, "emulated", True)):
        environment = os.environ | {"WEFT_BF16_DOT": dot}
        done = subprocess.run(command(out, *(["--resume"] if steps > 2 else []), steps=steps), capture_output=True, text=True, env=environment)
        if done.returncode != 0 or ("their bits may differ" in done.stdout + done.stderr) != said:
            sys.exit(f"FAILED arithmetic {dot}: exit {done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}")
        passed += 1


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    duration = duration_of_steps(folder / "whole")
    reference = weights(folder / "whole")
    killed_and_resumed(folder, reference, duration)
    stopped_inside_steps(folder)
    other_arithmetic_is_said(folder)
    for threads in (1, 2, 3):
        same(f"--threads {threads}", train(folder / f"threads{threads}", "--threads", threads), reference)
    for dtype in ("f32", "bf16"):
        cuts = [train(folder / f"{dtype}{batch}", "--accumulate", 8 // batch, "--dtype", dtype, steps=10, batch=batch) for batch in (1, 2, 8)]
        same(f"{dtype}: 2x4 against 1x8", cuts[1], cuts[0])
        same(f"{dtype}: 8x1 against 1x8", cuts[2], cuts[0])
    if train(folder / "seed", "--seed", 1) == reference:
        sys.exit("FAILED another seed: the weights are the same")
print(f"{passed} passed, 0 failed")
