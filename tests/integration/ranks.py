"""ranks.py TOOL SOURCE [long]: weights, checkpoints, best model and metrics are the same bytes for any number of ranks. `long`: every
optimizer and dtype, 200 steps, up to 8 ranks; without it a sample that has each option once."""
import pathlib
import shutil
import sys
import tempfile

from checks import expect, finish
from mpi import differences, need_mpi, results, run, small

source = pathlib.Path(sys.argv[2]).resolve()
LONG = "long" in sys.argv
need_mpi()
LORA = ["--log-every", 1, "--model", source / "tests/golden/models/llama", "--lora-rank", 4, "--lora-dropout", 0.1]
TEXT = "".join(f"Dear reader {i},\nthank you for letter {i * i}.\n" for i in range(200))


def sums(*more):
    return small("--dropout", 0.1, *more)


# Settings, and the numbers of ranks that can share their micro-batches (docs/distributed.md).
SAMPLE = {
    "adamw f32, 8 micro-batches, matrices that ranks divide": (sums("--batch", 8, "--width", 256, "--ffn", 1280), (2, 4)),
    "lion bf16, recomputed, 2 x 3 micro-batches": (sums("--batch", 2, "--accumulate", 3, "--optimizer", "lion", "--dtype", "bf16", "--recompute"), (3,)),
    "muon bf16, nothing sharded": (sums("--batch", 4, "--optimizer", "muon", "--dtype", "bf16", "--width", 64, "--shard", "none"), (2,)),
    "sgd f32, gradients sharded": (sums("--batch", 8, "--optimizer", "sgd", "--nesterov", "--learning-rate", 0.05, "--shard", "gradients"), (4,)),
    "10 sequences, 2 at a time": (sums("--batch", 10, "--sums-rows", 2, "--pass-tokens", 72), (3,)),
    "LoRA bf16": ([*LORA, "--data", "text.txt", "--sequence", 32, "--batch", 4, "--pass-tokens", 1, "--dtype", "bf16"], (2,)),
}


def whole_table():
    cases = {}
    for dtype in ("f32", "bf16"):
        for optimizer in ("adamw", "lion", "sgd", "muon"):
            rate = ["--learning-rate", 0.05] if optimizer == "sgd" else []
            set = ["--optimizer", optimizer, "--dtype", dtype, *rate]
            cases[f"{optimizer} {dtype}, 8 micro-batches"] = (sums("--batch", 8, *set), (2, 4, 8))
            cases[f"{optimizer} {dtype}, matrices that ranks divide"] = (sums("--batch", 4, "--width", 256, "--ffn", 1280, *set), (2, 4))
            cases[f"{optimizer} {dtype}, 2 x 3 micro-batches, recomputed"] = (sums("--batch", 2, "--accumulate", 3, "--recompute", *set), (2, 3))
            lora = [*LORA, "--data", "text.txt", "--sequence", 32, "--batch", 4, "--pass-tokens", 1, *set]
            cases[f"{optimizer} {dtype}, LoRA"] = (lora, (2, 4))
    for shard in ("none", "gradients"):
        cases[f"shard {shard}"] = (sums("--batch", 8, "--shard", shard), (2, 4, 8))
    return cases


def resumed(folder, case, arguments, one, last):
    """The run of the most ranks, continued from its first checkpoint by two, with other shards."""
    shutil.rmtree(folder / "run/model")
    last.unlink()
    done = run(folder, 2, *arguments, "--resume", "--shard", "gradients", limit=1200)
    expect(f"{case}, resumed", done.code == 0, done.shown())
    differ = [name for name in differences(one, results(folder / "run")) if not name.startswith("checkpoints/")]  # which name the shards
    expect(f"{case}, resumed by two ranks, is the same", not differ, differ)


def check(folder, case, arguments, ranks):
    steps = 200 if LONG else 8
    every = steps // 2
    arguments = ["--out", "run", *arguments, "--steps", steps, "--save-every", every, "--evaluate-every", every, "--evaluate-units", 5]

    def made(count):
        at = folder / f"{case.replace(' ', '_')}_{count}"
        at.mkdir()
        (at / "text.txt").write_text(TEXT)
        done = run(at, count, *arguments, limit=1200)
        expect(f"{case} on {count}: exit code", done.code == 0, done.shown())
        return results(at / "run") if done.code == 0 else None, done

    one, _ = made(1)
    expect(f"{case}: a run writes", one and len(one) >= 6 and len(one["metrics.jsonl"]) > steps, one and list(one))
    for count in ranks:
        other, done = made(count)
        differ = differences(one, other) if one and other else ["the run"]
        expect(f"{case} on {count} ranks is the same", not differ, differ)
        lines = done.text().splitlines()
        expect(f"{case} on {count}: rank 0 alone prints", sum(line.startswith("report: ") for line in lines) == 1 and
               done.steps() == steps and f"tok/s on {count} ranks" in done.text(), done.shown())
        page = (folder / f"{case.replace(' ', '_')}_{count}/run/report.html").read_text()
        expect(f"{case} on {count}: the report names the ranks", f"<dd>{count}, " in page and "in communication" in page and
               f"(rank {count - 1})" in page, page[-1500:])
    if "divide" in case and one:
        at = folder / f"{case.replace(' ', '_')}_{ranks[-1]}"
        resumed(at, case, arguments, one, at / f"run/checkpoints/checkpoint-{steps:010d}.safetensors")


def plan(folder):
    """A rank of eight needs less for the optimizer and the same for the weights."""
    def lines(*more):
        done = run(folder / "plan", 1, "--plan", *sums("--batch", 8, "--width", 512, "--ffn", 1024), *more)
        expect(f"--plan {more}", done.code == 0, done.shown())
        return {words[0]: words[1:3] for words in map(str.split, done.text().splitlines()) if len(words) > 2}

    one, eight, none = lines(), lines("--ranks", 8), lines("--ranks", 8, "--shard", "none")
    size = lambda words: float(words[0]) * {"KiB": 1, "MiB": 1024}[words[1]]
    expect("weights", one["weights"] == eight["weights"], (one, eight))
    expect("optimizer", size(eight["optimizer"]) < 0.3 * size(one["optimizer"]), (one, eight))
    expect("optimizer, nothing sharded", none["optimizer"] == one["optimizer"], (one, none))
    wrong = run(folder / "plan", 1, "--plan", *sums("--batch", 2), "--ranks", 8)
    expect("too few micro-batches", wrong.code == 2 and "--batch" in wrong.text(), wrong.shown())
    run_flag = run(folder / "plan", 1, *sums(), "--ranks", 2)
    expect("--ranks without --plan", run_flag.code == 2 and "--plan" in run_flag.text(), run_flag.shown())


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    plan(folder)
    for case, (arguments, ranks) in (whole_table() if LONG else SAMPLE).items():
        check(folder, case, arguments, ranks)
finish()
