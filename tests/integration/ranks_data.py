"""ranks_data.py TOOL SOURCE: weighted lists and --validation-data, of text and of conversations. One and two ranks, and two ranks of which
one is killed and the run resumed, end with the same bytes. Ranks whose validation data differ refuse to start."""
import gzip
import json
import os
import pathlib
import random
import signal
import tempfile

from checks import expect, finish
from mpi import Run, differences, need_mpi, records, results, run

need_mpi()
TINY = ["--layers", 1, "--width", 32, "--heads", 2, "--vocabulary", "bytes", "--out", "run", "--cache", "cache", "--log-every", 1, "--warmup", 2]
STEPS = ["--steps", 16, "--save-every", 2, "--evaluate-every", 8, "--sample-tokens", 4]


def write_data(folder):
    chance = random.Random(22)
    words = ["loom", "weft", "warp", "thread", "cloth", "spins", "pulls", "knots", "slow", "red"]
    text = lambda: " ".join(chance.choices(words, k=chance.randrange(2, 14)))
    line = lambda **fields: json.dumps(fields) + "\n"
    (folder / "b").mkdir(parents=True)
    (folder / "a.jsonl").write_text("".join(line(text=text()) for _ in range(40)))
    (folder / "b/b.txt").write_text(" ".join(text() for _ in range(30)))
    (folder / "b/c.jsonl.gz").write_bytes(gzip.compress("".join(line(text=text()) for _ in range(20)).encode()))
    (folder / "held.jsonl").write_text("".join(line(text=text()) for _ in range(11)))
    chat = lambda: line(messages=[{"role": "user", "content": text()}, {"role": "assistant", "content": text()}])
    (folder / "chat.jsonl").write_text("".join(chat() for _ in range(30)))
    (folder / "pairs").mkdir()
    (folder / "pairs/p.jsonl").write_text("".join(line(prompt=text(), completion=text()) for _ in range(12)))
    (folder / "held-chat.jsonl").write_text("".join(chat() for _ in range(7)))
    return folder


def cases(data):
    """Settings, and the runs of two ranks that are compared with one rank's."""
    text = ["--data", f"{data}/a.jsonl:0.7,{data}/b/:0.3", "--sequence", 48, "--batch", 4, "--pass-tokens", 48]
    chat = ["--task", "sft", "--chat-template", "chatml", "--data", f"{data}/chat.jsonl:3,{data}/pairs/:1", "--sequence", 320, "--batch", 4, "--pass-tokens", 320]
    return {"text": ([*text, "--validation-data", f"{data}/held.jsonl"], ("whole", "killed")),
            "conversations": ([*chat, "--packing", "none", "--validation-data", f"{data}/held-chat.jsonl:1,{data}/pairs/:2"], ("killed",)),
            "packed conversations": ([*chat, "--packing", "documents", "--validation-data", f"{data}/held-chat.jsonl"], ("whole",))}

def killed(folder, arguments):
    """Rank 1 is killed after the first checkpoint; True if the run was not over."""
    job = Run(folder, 2, *arguments)
    job.wait_for(lambda: any((folder / "run/checkpoints").glob("*.safetensors")))
    pids = job.pids()
    if job.running() and 1 in pids:
        try:
            os.kill(pids[1], signal.SIGKILL)
        except ProcessLookupError:
            pass
    return job.wait().code != 0


def same_bytes(folder, case, arguments, runs):
    """True if a run was killed."""
    arguments = [*arguments, *TINY, *STEPS]
    one = run(folder / "one", 1, *arguments)
    expect(f"{case}: one rank", one.code == 0, one.shown())
    if one.code:
        return False
    reference = results(folder / "one/run")
    expect(f"{case}: the list is a mixture", "a mixture of 2 parts" in one.text() and "; validation: " in one.text(), one.text()[:1500])
    losses = [record["validation_loss"] for record in records(folder / "one/run") if "validation_loss" in record]
    expect(f"{case}: evaluated", len(losses) == 2 and losses[1] < losses[0], losses)
    was_killed = False
    for name in runs:
        again = []
        if name == "killed":
            was_killed = killed(folder / name, arguments)
            again = ["--resume"]
        two = run(folder / name, 2, *(["--out", "run"] if was_killed else arguments), *again)
        expect(f"{case}: two ranks, {name}", two.code == 0, two.shown())
        expect(f"{case}: continued behind a checkpoint", not was_killed or "resuming after step" in two.text(), two.shown())
        differ = differences(reference, results(folder / name / "run"))
        expect(f"{case}: two ranks, {name}, have the bytes of one", not differ, differ)
    return was_killed


def changed_on_resume(folder, data):
    """Other validation data is said, other weights are refused."""
    (folder / "run/model/model.safetensors").unlink()
    again = run(folder, 1, "--resume", "--out", "run", "--validation-data", data / "held-chat.jsonl")
    expect("other validation data is said", again.code == 0 and "held-chat.jsonl: the validation data has changed" in again.text(), again.shown())
    again = run(folder, 1, "--resume", "--out", "run", "--data", f"{data}/chat.jsonl:1,{data}/pairs/:1")
    expect("other weights are refused", again.code == 2 and "the data, its weights or its tokenizer has changed (data was " in again.text(), again.shown())


def other_validation(folder, data):
    """The file of --validation-data is another one on rank 1."""
    folder.mkdir()
    for rank in (0, 1):
        (folder / f"{rank}").mkdir()
        (folder / f"{rank}/held.jsonl").write_text("".join(json.dumps({"text": f"some words {rank}"}) + "\n" for _ in range(3 + 4 * rank)))
    wrapper = folder / "in_own_folder.sh"
    wrapper.write_text('#!/bin/sh\nout=$PWD/run; cd "$OMPI_COMM_WORLD_RANK" && exec "$@" --out "$out"\n')
    wrapper.chmod(0o755)
    arguments = ["--data", data / "a.jsonl", "--validation-data", "held.jsonl", "--sequence", 48, "--pass-tokens", 48, *TINY[:8], "--cache", folder / "cache", *STEPS]
    refused = run(folder, 2, *arguments, wrapper=[wrapper])
    expect("other validation data on rank 1", refused.code == 2 and "ranks must have the same validation data: " in refused.text(), refused.shown())


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    data = write_data(folder / "data")
    kills = [same_bytes(folder / f"case{i}", case, *settings) for i, (case, settings) in enumerate(cases(data).items())]
    expect("runs were killed before their end", any(kills), kills)
    changed_on_resume(folder / "case1/one", data)
    other_validation(folder / "other", data)
finish()
