"""weft train --evaluate-tasks: records, report and TensorBoard; equal to weft eval on the exported folder, after a resume and on two ranks;
errors before the first step."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from checks import expect, finish
from mpi import ENVIRONMENT

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
golden = source / "tests/golden/tasks"
FEW = ["arc.jsonl", "plain_targets.jsonl", "plain_texts.jsonl"]


def run(*args, code=0, ranks=1):
    start = ["mpirun", "-n", str(ranks), tool] if ranks > 1 else [tool]
    done = subprocess.run([*start, *map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=ENVIRONMENT)
    expect(f"exit code of {' '.join(map(str, args))}", done.returncode == code, (done.returncode, done.stdout[-300:], done.stderr[-600:]))
    return done.stdout if code == 0 else done.stderr


COMMON = ["train", "--vocabulary", "bytes", "--layers", 1, "--width", 32, "--heads", 2, "--kv-heads", 1, "--ffn", 48, "--context", 256, "--sequence", 64,
          "--batch", 4, "--pass-tokens", 128, "--evaluate-every", 4, "--save-every", 4, "--sample-tokens", 0]


def train(folder, out, *more, ranks=1):
    tasks = [] if "--evaluate-tasks" in more else ["--evaluate-tasks", ",".join(str(golden / name) for name in FEW)]
    return run(*COMMON, "--data", folder / "text.txt", "--out", out, *tasks, *more, ranks=ranks)


def task_lines(out):
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "tasks" in line]


def recorded(folder):
    out = folder / "whole"
    train(folder, out, "--steps", 8)
    lines = task_lines(out)
    expect("at every evaluation", [line["step"] for line in lines] == [4, 8], lines)
    expect("all tasks", list(lines[0]["tasks"]) == ["arc", "plain_targets", "plain_texts"], lines[0])
    expect("scores of a task", list(lines[0]["tasks"]["arc"]["scores"]) == ["acc", "acc_norm", "acc_bytes", "acc_tokens"], lines[0])
    expect("the model learns", lines[1]["tasks"]["plain_texts"]["scores"]["bits_per_byte"]["value"] < lines[0]["tasks"]["plain_texts"]["scores"]["bits_per_byte"]["value"], lines)
    page = (out / "report.html").read_text()
    for words in ("Tasks, step 8", "<td>acc_norm<td>", "arc acc", "Bits per byte of task texts"):
        expect(f"the report has {words}", words in page)
    events = b"".join(path.read_bytes() for path in out.glob("events.*"))
    expect("TensorBoard", b"tasks/arc/acc" in events and b"tasks/plain_texts/bits_per_byte" in events)
    shown = json.loads(run("eval", out / "model", *[word for name in FEW for word in ("--task", golden / name)], "--json"))
    for task in shown["tasks"]:
        last = lines[-1]["tasks"][task["task"]]
        expect(f"{task['task']}: equal to weft eval on the exported folder", (last["items"], last["scores"]) == (task["items"], task["scores"]), (last, task))


def resumed(folder):
    out = folder / "parts"
    train(folder, out, "--steps", 4, "--schedule", "constant", "--warmup", 1)
    train(folder, folder / "constant", "--steps", 8, "--schedule", "constant", "--warmup", 1)
    expect("a run of four steps has one", len(task_lines(out)) == 1)
    text = (out / "metrics.jsonl").read_text().splitlines()
    (out / "metrics.jsonl").write_text("\n".join(line for line in text if '"tasks"' not in line) + "\n")  # killed before it was recorded
    run("train", "--resume", "--out", out, "--steps", 8)
    expect("resumed", task_lines(out) == task_lines(folder / "constant"), (task_lines(out), task_lines(folder / "constant")))


def on_two_ranks(folder):
    if not shutil.which("mpirun") or "MPI" not in run("devices"):
        return
    train(folder, folder / "ranks", "--steps", 8, ranks=2)
    expect("two ranks", task_lines(folder / "ranks") == task_lines(folder / "whole"), (task_lines(folder / "ranks"), task_lines(folder / "whole")))


def with_shots(folder):
    """Examples from the tasks themselves and from files; texts have none."""
    tasks = ["mmlu.jsonl", "plain_choices.jsonl", "plain_targets.jsonl", "plain_texts.jsonl"]
    more = ["--steps", 4, "--evaluate-tasks", ",".join(str(golden / name) for name in tasks), "--evaluate-tasks-shots", 2, "--evaluate-tasks-seed", 5]
    out = folder / "shots"
    train(folder, out, *more, "--evaluate-tasks-shots-data", f"{golden / 'mmlu_dev.jsonl'},,,")
    (line,) = task_lines(out)
    expect("examples of each task", [task["shots"] for task in line["tasks"].values()] == [2, 2, 2, 0], line)
    for name, with_data in (("mmlu", ["--shots-data", golden / "mmlu_dev.jsonl"]), ("plain_choices", []), ("plain_targets", [])):
        shown = json.loads(run("eval", out / "model", "--task", golden / f"{name}.jsonl", "--shots", 2, "--seed", 5, *with_data, "--json"))["tasks"][0]
        found = line["tasks"][name]
        expect(f"{name} with examples: equal to weft eval", (found["items"], found["scores"]) == (shown["items"], shown["scores"]), (found, shown))
    page = (out / "report.html").read_text()
    expect("the report has the examples", "few-shot examples" in page and "mmlu acc (2-shot)" in page)
    events = b"".join(path.read_bytes() for path in out.glob("events.*"))
    run("report", folder / "whole", out, "--out", folder / "both.html")
    both = (folder / "both.html").read_text()
    for words in ("Task mmlu acc (2-shot)", "Task arc acc", "Task plain_texts bits_per_byte", "<th>arc acc</th>"):
        expect(f"the comparison has {words}", words in both)
    expect("TensorBoard has the examples", b"tasks/mmlu/2-shot/acc" in events and b"tasks/plain_texts/bits_per_byte" in events)
    wrong = [*COMMON, "--data", folder / "text.txt", "--out", folder / "refused", "--evaluate-tasks", golden / "mmlu.jsonl"]
    expect("too few examples", "examples" in run(*wrong, "--evaluate-tasks-shots", 1000, code=2))
    expect("two names for one task", "with 2 names" in run(*wrong, "--evaluate-tasks-shots", 1, "--evaluate-tasks-shots-data", "a,b", code=2))
    expect("a file without a number", "needs evaluate_tasks_shots" in run(*wrong, "--evaluate-tasks-shots-data", golden / "mmlu_dev.jsonl", code=2))
    expect("examples of another form", "of the form ARC" in run(*wrong, "--evaluate-tasks-shots", 1, "--evaluate-tasks-shots-data", golden / "arc.jsonl", code=2))


def settings(folder):
    train(folder, folder / "every", "--steps", 6, "--evaluate-tasks-every", 3, "--evaluate-tasks-items", 2)
    lines = task_lines(folder / "every")
    expect("--evaluate-tasks-every", [line["step"] for line in lines] == [3, 6], lines)
    expect("--evaluate-tasks-items", all(task["items"] == 2 for line in lines for task in line["tasks"].values()), lines)


def errors(folder):
    def refused(what, words, line, *more):
        (folder / "wrong.jsonl").write_text(line + "\n")
        err = run("train", "--data", folder / "text.txt", "--out", folder / "refused", "--steps", 2, "--evaluate-tasks", folder / "wrong.jsonl", *more, code=2)
        expect(what, all(word in err for word in words), err)

    refused("a broken line", ["wrong.jsonl:1"], "{")
    refused("an answer out of range", ["wrong.jsonl:1", "is 3"], '{"prompt": "p", "choices": ["x"], "answer": 3}')
    refused("a character that the vocabulary lacks", ["wrong.jsonl:1"], json.dumps({"text": "Ω"}))
    expect("a list with an empty name", "separated by commas" in run("train", "--data", folder / "text.txt", "--evaluate-tasks", "a.jsonl,,b.jsonl", "--out", folder / "refused", code=2))


with tempfile.TemporaryDirectory() as name:
    directory = pathlib.Path(name)
    (directory / "text.txt").write_text("".join(f"Question: who wrote letter {i}?\nAnswer: {who} did.\n\n" for i, who in enumerate(["Ada", "Emmy", "Kurt", "Alan"] * 40)))
    recorded(directory)
    resumed(directory)
    on_two_ranks(directory)
    with_shots(directory)
    settings(directory)
    errors(directory)
finish()
