"""Records of a run: TensorBoard events after SIGKILL, the best model, the report, and the comparison of runs."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

from checks import expect, finish

tool = str(pathlib.Path(sys.argv[1]).resolve())
TEXT = ["--data", "book.txt", "--sequence", "16", "--sample-tokens", "1", "--evaluate-units", "4", "--batch", "1", "--warmup", "2"]
SMALL = [*TEXT, "--layers", "1", "--width", "32", "--heads", "2"]


def weft(*args):
    return subprocess.run([tool, *map(str, args)], capture_output=True, text=True, timeout=120)


def records(path):
    """The messages of a TFRecord file, up to a truncated one."""
    data, at = path.read_bytes(), 0
    while at + 12 <= len(data):
        length = struct.unpack_from("<Q", data, at)[0]
        if at + 16 + length > len(data):
            return
        yield data[at + 12:at + 12 + length]
        at += 16 + length


def fields(message):
    """(number, value) of a protobuf message: integers, bytes, and fixed widths as bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        size = {0: None, 1: 8, 5: 4}[key & 7] if key & 7 != 2 else varint()
        if size is None:
            yield key >> 3, varint()
        else:
            at += size
            yield key >> 3, message[at - size:at]


def tensorboard(run, tag):
    """[(step, value)] of a scalar as TensorBoard shows it: a (re)start of the run discards later steps of earlier starts."""
    shown = []
    for path in sorted(run.glob("events.out.tfevents.*")):
        for event in map(dict, map(fields, records(path))):
            step = event.get(2, 0)
            if 7 in event and dict(fields(event[7]))[1] == 1:
                shown = [s for s in shown if s[0] < step]
            if 5 in event:
                value = dict(fields(dict(fields(event[5]))[1]))
                if value[1] == tag:
                    shown.append((step, struct.unpack("<f", value[2])[0]))
    return shown


def metrics(run):
    lines = []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:  # a line cut off by the kill
            pass
    return lines


def losses(run):
    return [(m["step"], struct.unpack("<f", struct.pack("<f", m["loss"]))[0]) for m in metrics(run) if "loss" in m]


def killed_and_resumed(run):
    command = [tool, "train", "--out", str(run), "--steps", "100000", "--save-every", "40", "--evaluate-every", "0", *SMALL]
    for step in (30, 130):  # before the first checkpoint, and after some
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not ((run / "metrics.jsonl").exists() and (run / "metrics.jsonl").read_bytes().count(b'"loss"') > step + 1):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        missing = set(losses(run)) - set(tensorboard(run, b"loss"))
        expect(f"killed after step {step}: TensorBoard has every loss of metrics.jsonl", len(losses(run)) > step and not missing, sorted(missing)[:5])
        command = [*command, "--resume"]
    last = losses(run)[-1][0] + 20
    done = weft("train", "--resume", "--out", run, "--steps", last)
    expect("the killed run resumes", done.returncode == 0, done.stderr[-300:])
    expect("TensorBoard shows every step once", [s for s, _ in tensorboard(run, b"loss")] == list(range(1, last + 1)), tensorboard(run, b"loss")[-3:])
    expect("TensorBoard shows the losses of metrics.jsonl", tensorboard(run, b"loss") == losses(run))


def best_model(folder, run):
    done = weft("train", "--out", run, "--steps", 12, "--evaluate-every", 4, "--save-every", 4, *SMALL)
    expect("a run", done.returncode == 0, done.stderr)
    best = json.loads((run / "best/best.json").read_text())
    evaluations = {m["step"]: m["validation_loss"] for m in metrics(run) if "validation_loss" in m}
    expect("best.json has the lowest evaluation", best == {"step": 12, "validation_loss": min(evaluations.values())}, (best, evaluations))
    weights = (run / "model/model.safetensors").read_bytes()
    worse = weft("train", "--resume", "--out", run, "--steps", 20, "--learning-rate", 1)
    expect("a run that gets worse prints the folder of the best model", f"after step 12: {run}/best" in worse.stdout, worse.stdout + worse.stderr)
    exported = weft("export", run, folder / "exported", "--best")
    expect("export --best", exported.returncode == 0 and "step 12" in exported.stderr, exported.stderr)
    expect("export --best writes the best weights", (folder / "exported/model.safetensors").read_bytes() == weights)
    expect("export --best writes the tokenizer", (folder / "exported/tokenizer.json").read_bytes() == (run / "model/tokenizer.json").read_bytes())
    text = weft("generate", folder / "exported", "The ", "--max-tokens", 4)
    expect("the exported model generates", text.returncode == 0, text.stderr)
    none = weft("train", "--out", folder / "none", "--steps", 2, "--no-keep-best", *SMALL)
    expect("--no-keep-best", none.returncode == 0 and not (folder / "none/best").exists(), none.stderr)
    missing = weft("export", folder / "none", folder / "nothing", "--best")
    expect("a run without a best model", missing.returncode == 2 and "has no best model" in missing.stderr and missing.stderr.count("\n") == 1, missing.stderr)


def best_adapter(folder):
    """A LoRA run keeps its best adapter; export merges it."""
    base = folder / "exported"
    done = weft("train", "--model", base, "--lora-rank", 2, "--out", folder / "lora", "--steps", 4, *TEXT)
    expect("a LoRA run keeps its best adapter", done.returncode == 0 and (folder / "lora/best/adapter_model.safetensors").exists(), done.stderr)
    exported = weft("export", folder / "lora", folder / "merged", "--best")
    expect("export --best merges the adapter", exported.returncode == 0, exported.stderr)
    same = (folder / "merged/model.safetensors").read_bytes() == (folder / "lora/model/model.safetensors").read_bytes()
    expect("export merges like the run itself", same)


def report_and_comparison(folder, first, second):
    page = (first / "report.html").read_text()
    for part in (f"{tool} train --resume --out {first}", "resumed after step 12", "host", "version", "perplexity", "best model", " UTC", "log scale"):
        expect(f"the report has {part}", part in page)
    expect("the report of a finished run does not reload", "http-equiv=refresh" not in page)
    done = weft("report", first, second, "--out", folder / "both.html")
    page = (folder / "both.html").read_text() if done.returncode == 0 else ""
    expect("weft report", done.returncode == 0 and done.stdout == f"report: {folder}/both.html\n", done.stderr)
    for part in (first.name, second.name, "Settings that differ", "evaluate_every", "Validation loss"):
        expect(f"the comparison has {part}", part in page)
    for what, args, part in (("a missing folder", [first, folder / "typo"], "typo: is not a folder"), ("another folder", [first, first / "model"], "it has no config.toml"),
                             ("no run", [], "RUN")):
        result = weft("report", *args, "--out", folder / "none.html")
        ok = result.returncode == 2 and part in result.stderr and len(result.stderr.strip().splitlines()) <= 2 and not (folder / "none.html").exists()
        expect(what, ok, f"{result.returncode}: {result.stderr}")


def report_of_a_running_run(run):
    process = subprocess.Popen([tool, "train", "--out", str(run), "--steps", "100000", "--evaluate-every", "0", *SMALL], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (run / "report.html").exists():
        time.sleep(0.01)
    page = (run / "report.html").read_text()
    expect("the report of a running run reloads", "http-equiv=refresh" in page and ">running<" in page)
    compared = weft("report", run, "--out", run / "compared.html")
    expect("a running run can be compared", compared.returncode == 0 and " of 100000" in (run / "compared.html").read_text(), compared.stderr)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    page = (run / "report.html").read_text()
    expect("the report of a stopped run does not reload", "http-equiv=refresh" not in page and "stopped at step" in page)


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    os.environ["WEFT_CACHE"] = str(folder / "cache")
    os.chdir(folder)
    pathlib.Path("book.txt").write_text("".join(f"The {i}th line of a book.\n" for i in range(200)))
    killed_and_resumed(folder / "killed")
    best_model(folder, folder / "first")
    best_adapter(folder)
    report_and_comparison(folder, folder / "first", folder / "killed")
    report_of_a_running_run(folder / "going")
finish()
