"""Every command of examples/text_to_answers.md in its order; the training run is also killed with SIGKILL and resumed."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checks import expect, finish

tool, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
page = (source / "examples/text_to_answers.md").read_text()


def commands():
    for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL):
        yield from [block] if block.startswith("awk") else [line.split("   #")[0].strip() for line in block.splitlines()]


def kill_after_step(step, words, folder, environment):
    """Whether the run was killed before it ended: on a busy machine it may end first."""
    with subprocess.Popen(["bash", "-c", f"exec {words}"], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        metrics = folder / "runs/killed/metrics.jsonl"
        while run.poll() is None and not (metrics.exists() and f'"step":{step},' in metrics.read_text()):
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
    return run.returncode == -signal.SIGKILL


def killed(command, folder, environment):
    """The same run in another folder, killed after a checkpoint and resumed."""
    words = command.replace("--out runs/base", "--out runs/killed")
    for _ in range(10):
        if kill_after_step(21, words, folder, environment):
            break
        shutil.rmtree(folder / "runs/killed")
    done = subprocess.run(["weft", "train", "--resume", "--out", "runs/killed"], cwd=folder, env=environment, capture_output=True, text=True)
    expect("resumed", done.returncode == 0 and re.search(r"resuming after step [1-9]", done.stdout + done.stderr), done.stdout[:600] + done.stderr)
    whole, other = folder / "runs/base", folder / "runs/killed"
    expect("the same model", (whole / "model/model.safetensors").read_bytes() == (other / "model/model.safetensors").read_bytes())

    def tasks(run):
        return [line for line in (run / "metrics.jsonl").read_text().splitlines() if '"tasks"' in line]
    expect("the same scores", tasks(whole) == tasks(other) and len(tasks(whole)) > 3, (tasks(whole)[-1:], tasks(other)[-1:]))


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)
    environment = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}", "WEFT_CACHE": name + "/cache", "XDG_STATE_HOME": name + "/state"}
    shown = {}
    for each in commands():
        done = subprocess.run(["bash", "-c", each], cwd=place, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        expect(each.splitlines()[0], done.returncode == 0, done.stdout[-500:] + done.stderr[-800:])
        shown[each] = done.stdout
        if "--out runs/base" in each and "--packing" in each:
            killed(each, place, environment)
    lines = [json.loads(line) for line in (place / "runs/base/metrics.jsonl").read_text().splitlines()]
    samples = [line["sample"] for line in lines if "sample" in line]
    expect("samples stop at the end of a document", any(samples) and all("<|endoftext|>" not in sample[:-1] for sample in samples), samples)
    answers = [shown[each] for each in shown if "weft chat" in each]
    expect("it knows a colour", "The colour of the owl is grey." in answers[0], answers)
    expect("it knows a home", "The owl lives in a barn." in answers[1], answers)
    score = next(shown[each] for each in shown if "weft eval" in each)
    accuracy = re.search(r"acc +([0-9.]+)", score)
    expect("the task is scored", accuracy and float(accuracy[1]) >= 0.5, score)
    expect("each question has a result", len((place / "each.jsonl").read_text().splitlines()) == 6)
finish()
