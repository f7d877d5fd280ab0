"""ranks_ends.py TOOL SOURCE: --patience, --on-bad-step skip and --packing documents end with the same bytes on one rank, and on two that are killed with SIGKILL and
resumed."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

from checks import expect, finish
from mpi import Run, differences, need_mpi, records, results, run, small, tool
from safetensors_file import forbid_token

need_mpi()


def killed(at, ranks, after, arguments):
    """Runs until so many steps are done, then SIGKILL."""
    job = Run(at, ranks, *arguments)
    reached = job.wait_for(lambda: job.steps() >= after)
    for pid in ([job.process.pid] if ranks == 1 else job.pids().values()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    job.wait()
    expect(f"{at.name}: killed after step {after}", reached and job.code != 0, job.shown())


def same_everywhere(folder, name, arguments):
    """One process against two that are killed and resumed. Returns the records of the run, and what it printed."""
    one, at = run(folder / f"{name}1", 1, *arguments), folder / f"{name}_killed"
    expect(f"{name} on 1 rank", one.code == 0, one.shown())
    killed(at, 2, 4, arguments)
    job = run(at, 2, *arguments, "--resume")
    expect(f"{name}: resumed", job.code == 0, job.shown())
    different = differences(results(folder / f"{name}1/run"), results(at / "run"))
    expect(f"{name}: killed as whole", not different, different)
    return records(folder / f"{name}1/run"), job.text()


def patience(folder):
    """A rate so large that the loss grows after its first fall."""
    arguments = small("--out", "run", "--batch", 2, "--steps", 60, "--save-every", 3, "--evaluate-every", 2, "--evaluate-units", 2, "--learning-rate", 0.2,
                      "--patience", 5, "--dropout", 0.1, "--warmup", 20, "--sample-tokens", 0)
    lines, said = same_everywhere(folder, "patience", arguments)
    ends = [line for line in lines if "ended" in line]
    evaluations = [line for line in lines if "validation_loss" in line]
    best = min(evaluations, key=lambda line: line["validation_loss"])
    expect("it ends early", len(ends) == 1 and ends[0]["step"] == lines[-1]["step"] == best["step"] + 10 < 60 and ends[0]["evaluations"] == 5, lines[-3:])
    expect("it is printed", f"ended after step {ends[0]['step']}: no lower validation loss in 5 evaluations" in said, said[-500:])
    kept = json.loads((folder / "patience1/run/best/best.json").read_text())
    expect("the best model is kept", kept["step"] == best["step"] == ends[0]["best_step"], (kept, best))


def skipped(folder):
    """A token whose logit is minus infinity: each step that reads it has an infinite loss."""
    length, sequences = 16, 24
    words = list("abcdefghijklmno " * sequences + "a")
    for place in (20, 100, 300):
        words[place] = "Z"
    (folder / "plain.txt").write_text("".join(words))
    data = ["--data", folder / "plain.txt", "--sequence", length, "--validation", 0, "--batch", 2, "--pass-tokens", 1, "--cache", folder / "cache",
            "--sample-tokens", 0, "--evaluate-every", 0, "--log-every", 1, "--save-every", 1]
    first = run(folder, 1, "--out", "base", "--model", "gpt2-124m", "--layers", 1, "--width", 32, "--heads", 2, "--steps", 1, *data)
    expect("a base model", first.code == 0, first.shown())
    forbid_token(folder / "base/model", "Z")
    lines, said = same_everywhere(folder, "skip", ["--out", "run", "--model", folder / "base/model", "--epochs", 1, "--on-bad-step", "skip",
                                                   "--learning-rate", 1e-5, *data])
    steps = [line for line in lines if "loss" in line]
    bad = [line for line in steps if line.get("skipped")]
    expect("one epoch", len(steps) == sequences // 2, len(steps))
    expect("some steps are skipped, not all", 1 <= len(bad) <= 3 and all(line["loss"] is None for line in bad), bad)
    expect("it is printed", f"{len(bad)} step" in said and "skipped: loss or gradient norm not finite" in said, said[-500:])
    stopped = run(folder / "stop", 1, "--out", "run", "--model", folder / "base/model", "--epochs", 1, "--learning-rate", 1e-5, *data)
    expect("stop is the default", stopped.code == 1 and f"step {bad[0]['step']} gave a loss of " in stopped.text(), stopped.shown())


def packed(folder):
    """Documents that share rows, with dropout, several micro-batches a step and tasks, whose items the ranks divide."""
    chance = random.Random(3)
    lines = [json.dumps({"text": "".join(chance.choices("abcdef ", k=chance.randrange(1, 50)))}) for _ in range(120)]
    (folder / "documents.jsonl").write_text("\n".join(lines))
    items = [json.dumps({"prompt": "ab", "choices": ["c", "dd", "e f"], "answer": i % 3}) for i in range(5)]
    (folder / "letters.jsonl").write_text("\n".join(items))
    (folder / "next.jsonl").write_text("\n".join(json.dumps({"prompt": "abc " * i, "target": "a", "max_tokens": 3}) for i in range(1, 4)))
    arguments = ["--evaluate-tasks", f"{folder}/letters.jsonl,{folder}/next.jsonl", "--evaluate-tasks-shots", 1, "--evaluate-tasks-every", 3,
                 "--out", "run", "--data", folder / "documents.jsonl", "--packing", "documents", "--sequence", 32, "--batch", 4, "--pass-tokens", 64,
                 "--steps", 12, "--save-every", 2, "--evaluate-every", 5, "--dropout", 0.1, "--cache", folder / "cache", "--log-every", 1,
                 "--layers", 1, "--width", 32, "--heads", 2, "--sample-tokens", 4]
    possible = subprocess.run([tool, "train", "--plan", *map(str, arguments)], capture_output=True, text=True)
    if "packed documents" in possible.stderr:
        return print("skipped: packed documents:", possible.stderr.strip())
    lines, _ = same_everywhere(folder, "packed", arguments)
    tasks = [line for line in lines if "tasks" in line]
    expect("tasks are scored", [line["step"] for line in tasks] == [3, 6, 9, 12] and tasks[0]["tasks"]["letters"]["items"] == 5, tasks)
    expect("the padding is recorded", lines[0]["packing"] == "documents" and lines[0]["padding"] < 0.05, lines[0])
    again = subprocess.run([tool, "eval", "--run", folder / "packed1/run", "--json"], capture_output=True, text=True)
    expect("weft eval --run repeats it", again.returncode == 0 and json.loads(again.stdout)["recorded"]["same_bits"], again.stdout + again.stderr)


with tempfile.TemporaryDirectory() as folder:
    packed(pathlib.Path(folder))
    patience(pathlib.Path(folder))
    skipped(pathlib.Path(folder))
finish()
