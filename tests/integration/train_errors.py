"""Errors of weft train: one clear line, the documented exit code, and the last good checkpoint stays."""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

from checks import expect, finish

tool = sys.argv[1]
SMALL = ["--width", "32", "--batch", "1", "--sums-rows", "16", "--warmup", "2", "--evaluate-every", "0"]
WRONG, BAD_INPUT = 1, 2  # exit codes


def train(*args, **more):
    return subprocess.run([tool, "train", *map(str, args)], capture_output=True, text=True, timeout=120, **more)


def fails(what, result, *parts, code=BAD_INPUT):
    lines = [line for line in result.stderr.strip().splitlines() if line.startswith("weft")]
    ok = result.returncode == code and len(lines) == 1 and all(part in lines[0] for part in parts)
    expect(what, ok, f"exit {result.returncode}, {result.stderr.strip()[-400:]}")


def checkpoints(out):
    return sorted(p.name for p in (out / "checkpoints").iterdir())


def step_of(checkpoint):
    return int(checkpoint.split("-")[1].split(".")[0])


def file(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def wrong_settings(folder):
    out = ["--out", folder / "c"]
    fails("unknown device", train("--device", "abacus", *out), "abacus")
    fails("unknown model", train("--model", "llama-tony", *out), "model 'llama-tony' is neither a folder nor a known model; expected a model folder, or one of ", "llama-tiny")
    fails("malformed TOML", train("--config", file(folder / "bad.toml", "steps = 3\nbatch = = 2\n")), "bad.toml:2")
    fails("unknown key", train("--config", file(folder / "typo.toml", "steps = 3\nlearning_rat = 2\n")), "typo.toml:2", "learning_rat", "learning_rate")
    fails("wrong type", train("--config", file(folder / "type.toml", '\nsteps = "many"\n')), "type.toml:2", "steps", "integer")
    fails("no steps", train("--steps", -1, *out), "steps", "-1")
    fails("unknown optimizer", train("--optimizer", "adam", *out), "adam", "adamw")
    fails("heads that do not divide", train("--width", 33, *out), "33")
    fails("a step of 2^64 sequences", train("--plan", "--batch", 2**32, "--accumulate", 2**32, *out), "batch")
    fails("a setting without effect", train("--lora-targets", "q_proj", *out), "lora_targets", "lora_rank")
    fails("a prompt that cannot be read", train("--prompt", "two", *out), "prompt", "'t'")
    for number in ("99999999999999999999", "010", "1e3"):
        result = train("--steps", number, *out)
        expect(f"--steps {number}", result.returncode == BAD_INPUT and number in result.stderr and "--steps" in result.stderr, result.stderr)
    typo = train("--learning-rat", 3)
    expect("unknown flag", typo.returncode == BAD_INPUT and "--learning-rat" in typo.stderr, typo.stderr)
    fails("failed commands leave no run behind", train("--resume", "--out", folder / "c"), "holds no run")


def wrong_data(folder):
    def with_data(name, content, *more):
        return train("--data", file(folder / name, content), "--out", folder / "c", *more)

    fails("no such data", train("--data", folder / "none.txt", "--out", folder / "c"), "none.txt")
    fails("empty data", with_data("empty.txt", ""), "empty.txt", "empty")
    fails("short data", with_data("short.txt", "a few words", "--packing", "concatenate"), "short.txt", "less than one sequence")
    fails("no document of two tokens", with_data("letters.jsonl", '{"text": "a"}\n', "--packing", "documents"), "letters.jsonl", "no document of two tokens")
    fails("unknown packing", with_data("packed.txt", "a few words", "--packing", "some"), "packing is 'some'", "documents")
    fails("malformed JSONL", with_data("bad.jsonl", '{"text": "fine"}\n{"text": oops}\n'), "bad.jsonl:2")
    fails("JSONL without text", with_data("other.jsonl", '{"text": "fine"}\n\n{"words": "fine"}\n'), "other.jsonl:3", "text")
    fails("empty JSONL", with_data("empty.jsonl", "\n"), "empty.jsonl")
    fails("no UTF-8", with_data("latin.txt", b"caf\xe9 " * 100), "latin.txt", "UTF-8", "byte 3")
    (folder / "nothing").mkdir()
    fails("a folder without text", train("--data", folder / "nothing", "--out", folder / "c"), "nothing")


def damaged_checkpoints(folder):
    out = folder / "a"
    args = ["--out", out, "--steps", 6, "--save-every", 3, *SMALL]
    expect("a run", train(*args).returncode == 0)
    whole = (out / "model/model.safetensors").read_bytes()
    fails("a folder with a run in it", train(*args), "already holds a run", "--resume")
    fails("another model", train("--resume", *args[:-len(SMALL)], "--width", 64, *SMALL[2:]), "width is 64", "started with 32")
    fails("another number of heads", train("--resume", *args, "--heads", 2), "heads is 2", "started with 4")
    newest = out / "checkpoints" / checkpoints(out)[-1]
    good = newest.read_bytes()
    for how, bytes in {"cut": good[:-10], "one bit": good[:5000] + bytes_flipped(good[5000]) + good[5001:], "empty": b"", "garbage": b"\xff" * 4000}.items():
        newest.write_bytes(bytes)
        more = train("--resume", *args)
        expect(f"damaged checkpoint, {how}", more.returncode == 0 and newest.name in more.stderr and "resuming after step 3" in more.stderr, more.stderr)
        expect(f"the weights are the same, {how}", (out / "model/model.safetensors").read_bytes() == whole)
    for name in checkpoints(out):
        (out / "checkpoints" / name).write_bytes(good[:100])
    fails("no good checkpoint", train("--resume", *args), "none of its checkpoints can be read")


def bytes_flipped(value):
    return bytes([value ^ 4])


def unwritable_folders(folder):
    in_the_way = file(folder / "a_file", "not a folder")
    fails("a file in place of the run's folder", train("--out", in_the_way, *SMALL), "a_file")
    fails("a file above the run's folder", train("--out", in_the_way / "run", *SMALL), "a_file")
    fails("a folder that cannot hold files", train("--out", "/proc/run", *SMALL), "/proc/run")


# A limit on the file size acts like a full disk and needs no privileges.
def limited_file(folder):
    out = folder / "limited"
    args = ["--out", out, "--steps", 4, "--save-every", 1, *SMALL]
    expect("a first step", train(*args[:3], 1, *args[4:]).returncode == 0)
    (out / "model/model.safetensors").unlink()
    limit = (out / "checkpoints" / checkpoints(out)[0]).stat().st_size - 4096
    fails("a file that cannot grow", train("--resume", *args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))),
          "checkpoint-0000000002", "File too large")
    expect("the last good checkpoint stays, alone", checkpoints(out) == ["checkpoint-0000000001.safetensors"], checkpoints(out))
    more = train("--resume", *args)
    expect("the run resumes from it", more.returncode == 0 and "resuming after step 1" in more.stderr, more.stderr)


def full_disk(folder):
    small = folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", small], capture_output=True).returncode != 0:
        print("skipped: a full disk and a read-only one (mounting is not allowed here)")
        return
    try:
        fails("a full disk", train("--out", small / "run", "--steps", 200, "--save-every", 1, "--keep", 5, *SMALL), "No space left on device")
        kept = checkpoints(small / "run")
        expect("a full disk keeps the last good checkpoint", kept and all(n.endswith(".safetensors") for n in kept), kept)
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        last = step_of(kept[-1])
        more = train("--out", small / "run", "--resume", "--steps", last + 1, *SMALL)
        expect("the run resumes from it", more.returncode == 0 and f"resuming after step {last}" in more.stderr, more.stderr)
        subprocess.run(["mount", "-o", "remount,ro", small], check=True)
        fails("a read-only folder", train("--out", small / "other", *SMALL), "Read-only file system")
        fails("resumed on a read-only disk", train("--out", small / "run", "--resume", "--steps", last + 2, *SMALL), "Read-only file system")
        expect("a read-only disk keeps its checkpoints", step_of(checkpoints(small / "run")[-1]) == last + 1)
    finally:
        subprocess.run(["umount", small], check=True)


# Weights that overflow: the step is named and captured, and a replay gives the same result on any number of threads.
def not_finite(folder):
    out = folder / "bad"
    result = train("--out", out, "--optimizer", "sgd", "--learning-rate", 1e30, "--clip", 0, "--steps", 20, "--save-every", 1, *SMALL[:6], "--warmup", 0, *SMALL[8:])
    captures = list(out.glob("capture-*.safetensors"))
    fails("a loss that is not finite", result, "is the first that is not finite", "--replay", code=WRONG)
    expect("one capture", len(captures) == 1, captures)
    step = step_of(captures[0].name)
    expect("the checkpoint before it is there", step_of(checkpoints(out)[-1]) == step - 1, checkpoints(out))
    where = result.stderr.split("; ")[1]
    for threads in (1, 2):
        again = train("--replay", captures[0], "--threads", threads)
        expect(f"replay, {threads} threads", again.returncode == 0 and f"step {step}: loss" in again.stdout and where in again.stdout, f"{where} | {again.stdout}{again.stderr}")
    fails("a checkpoint is not a capture", train("--replay", out / "checkpoints" / checkpoints(out)[0]), "not the capture of a step")
    captures[0].write_bytes(captures[0].read_bytes()[:-7])
    fails("a damaged capture", train("--replay", captures[0]), captures[0].name)
    out = folder / "out_of_range"
    result = train("--out", out, "--optimizer", "sgd", "--learning-rate", 1e300, "--clip", 0, "--steps", 20, "--save-every", 1, *SMALL[:6], "--warmup", 0, *SMALL[8:])
    fails("weights that are not finite", result, "the weight model.", "was not finite before the step", code=WRONG)
    expect("no checkpoint of them", not checkpoints(out), checkpoints(out))


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    for part in (wrong_settings, wrong_data, damaged_checkpoints, unwritable_folders, limited_file, full_disk, not_finite):
        part(folder)
finish()
