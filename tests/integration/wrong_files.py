"""Files and folders of other formats, or damaged: each error is one line that says what they are and what to do."""
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from checks import expect, finish

tool = sys.argv[1]
models = pathlib.Path(sys.argv[2]) / "tests" / "golden" / "models"
BAD_FILE, NOT_SUPPORTED = 2, 3  # exit codes
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 576000\n"


def fails(what, args, *parts, code=BAD_FILE):
    done = subprocess.run([tool, *map(str, args)], capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stderr.strip().splitlines() if line.startswith("weft")]
    ok = done.returncode == code and len(lines) == 1 and all(part in lines[0] for part in parts)
    expect(what, ok, f"exit {done.returncode}, {done.stderr.strip()[-400:]}")


def copy_of(name, temporary):
    folder = temporary / name
    shutil.copytree(models / "gpt2", folder)
    return folder


def commands(folder):
    """Every command that takes a model folder."""
    text, out = folder.parent / "text.txt", folder.parent / "out"
    text.write_text("One line of a text after the other.\n" * 20)
    return (["generate", folder, "Hello"], ["eval", folder, "--data", text], ["export", folder, out], ["inspect", folder],
            ["train", "--model", folder, "--data", text, "--cache", folder.parent / "cache", "--sequence", 16, "--out", out])


def lfs_pointers(temporary):
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        folder = copy_of("pointer " + name, temporary)
        (folder / name).write_text(POINTER)
        for args in commands(folder):
            fails(f"{name} is a pointer, {args[0]}", args, f"{name}: is a Git LFS pointer, not the file itself", "git lfs pull")
    fails("tokenize with a pointer", ["tokenize", folder, "x"], "tokenizer.json: is a Git LFS pointer", "git lfs pull")
    sharded = copy_of("shards", temporary)
    (sharded / "model.safetensors").unlink()
    (sharded / "model.safetensors.index.json").write_text('{"weight_map": {"wte.weight": "model-1.safetensors"}}')
    (sharded / "model-1.safetensors").write_text(POINTER)
    fails("a shard is a pointer", ["inspect", sharded], "model-1.safetensors: is a Git LFS pointer")


def other_formats(temporary):
    gguf = temporary / "model.gguf"
    gguf.write_bytes(b"GGUF" + bytes([3]) + bytes(1000))  # no keys, no tensors
    for args in (["generate", gguf, "Hello"], ["inspect", gguf]):
        fails(f"an empty GGUF file, {args[0]}", args, "model.gguf: has no key 'general.architecture'")
    fails("an empty GGUF file, tokenize", ["tokenize", gguf, "x"], "model.gguf: has no key 'tokenizer.ggml.model'")
    fails("train on a GGUF file", ["train", "--model", gguf, "--out", temporary / "out"], "is a GGUF file", f"weft export {gguf} FOLDER")
    folder = temporary / "gguf"
    folder.mkdir()
    shutil.copy(gguf, folder / "llama-q4.gguf")
    for args in commands(folder):
        fails(f"a folder of GGUF, {args[0]}", args, f"{folder}: is not a model folder, but has a GGUF file; use {folder / 'llama-q4.gguf'}")
    folder = copy_of("misplaced", temporary)
    shutil.copy(gguf, folder / "model.safetensors")
    fails("a GGUF file as safetensors", ["generate", folder, "Hello"], "model.safetensors: is a GGUF file under another name")

    folder = copy_of("pytorch", temporary)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + bytes(100))
    for args in commands(folder):
        fails(f"PyTorch weights, {args[0]}", args, f"{folder}: has its weights in pytorch_model.bin", "save_pretrained", "safe_serialization=True", code=NOT_SUPPORTED)
    fails("a PyTorch file", ["inspect", folder / "pytorch_model.bin"], "is a PyTorch file", code=NOT_SUPPORTED)
    # The tokenizer can be read although the weights cannot.
    done = subprocess.run([tool, "tokenize", folder, "x"], capture_output=True)
    assert done.returncode == 0, done.stderr


def truncated(temporary):
    folder = copy_of("cut", temporary)
    whole = (models / "gpt2" / "model.safetensors").read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    for size in (len(whole) - 1, len(whole) // 2, header):
        (folder / "model.safetensors").write_bytes(whole[:size])
        for args in commands(folder):
            fails(f"truncated to {size} bytes, {args[0]}", args, f"model.safetensors: the file is truncated: {size} of {len(whole)} bytes")
    (folder / "model.safetensors").write_bytes(whole[:header - 1])
    fails("truncated within its header", ["inspect", folder], f"the file is truncated: {header - 1} of at least {header} bytes")


def runs(temporary):
    run = temporary / "run x"
    small = ["--layers", 1, "--width", 32, "--heads", 2, "--batch", 1, "--sums-rows", 8, "--warmup", 1, "--evaluate-every", 0, "--steps", 1]
    done = subprocess.run([tool, "train", "--data", "sums", "--out", run, *map(str, small)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for args in (*commands(run), ["tokenize", run, "1"]):
        fails(f"a run's folder, {args[0]}", args, f"{run}: is the folder of a training run; use {run / 'model'}")
    shutil.rmtree(run / "model")
    fails("a run without a model", ["generate", run, "1"], f"{run}: is the folder of an unfinished training run without a model", "--resume")


def dtypes(temporary):
    for dtype in ("int8", "i32", "q4"):
        fails(f"export as {dtype}", ["export", models / "gpt2", temporary / "exported", "--dtype", dtype], "f32, bf16 or f16", f"'{dtype}'")
    assert not (temporary / "exported").exists()


with tempfile.TemporaryDirectory() as folder:
    for part in (lfs_pointers, other_formats, truncated, runs, dtypes):
        part(pathlib.Path(folder))
finish()
