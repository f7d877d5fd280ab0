"""GGUF files: golden models are exported, generated from, talked with, inspected, exported back and broken."""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from checks import expect, finish

tool = sys.argv[1]
golden = pathlib.Path(sys.argv[2]) / "tests" / "golden"
models = golden / "models"
TEMPLATE = "{% for m in messages %}{{ '<s>' + m.role + ': ' + m.content + '</s>' }}{% endfor %}{% if add_generation_prompt %}<s>assistant:{% endif %}"


def run(*args, code=0, stdin=""):
    done = subprocess.run([tool, *map(str, args)], capture_output=True, encoding="utf-8", input=stdin, timeout=120)
    if done.returncode != code:
        sys.exit(f"weft {' '.join(map(str, args))}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def fails(what, args, *parts, code=2):
    done = subprocess.run([tool, *map(str, args)], capture_output=True, encoding="utf-8", input="", timeout=120)
    lines = [line for line in done.stderr.strip().splitlines() if line.startswith("weft")]
    expect(what, done.returncode == code and len(lines) == 1 and all(part in lines[0] for part in parts), f"exit {done.returncode}, {done.stderr.strip()[-400:]}")


def generated(path, *prompt):
    result = json.loads(run("generate", path, *prompt, "--max-tokens", 12, "--json")[0])
    return result["prompt_ids"], result["ids"], result["text"]


def there_and_back(temporary):
    for name in ("llama", "qwen2", "qwen3", "gpt2"):
        prompt = ["--prompt-ids", "1,2,3"] if name == "qwen2" else ["Hello world 123"]
        for dtype in ("f32", "f16", "bf16", "q8_0"):
            file = temporary / f"{name}-{dtype}.gguf"
            out, _ = run("export", models / name, file, "--dtype", dtype)
            expect(f"export {name} {dtype}", out.strip().endswith(f"parameters, {dtype}"), out)
        file = temporary / f"{name}-f32.gguf"
        expect(f"{name} generates the same text", generated(file, *prompt) == generated(models / name, *prompt))
        back = temporary / name
        run("export", file, back)
        expect(f"{name} has the same weights", (back / "model.safetensors").read_bytes() == (models / name / "model.safetensors").read_bytes())
        expect(f"{name} generates the same text again", generated(back, *prompt)[:2] == generated(file, *prompt)[:2])
        expect(f"{name} keeps its tokenizer", (back / "tokenizer.json").exists() == (models / name / "tokenizer.json").exists())
    again = temporary / "again.gguf"
    run("export", temporary / "llama-q8_0.gguf", again, "--dtype", "q8_0")  # the values of a block give the same block
    expect("q8_0 of q8_0", generated(again, "Hello") == generated(temporary / "llama-q8_0.gguf", "Hello"))


def inspected(temporary):
    about = json.loads(run("inspect", temporary / "llama-q8_0.gguf", "--json")[0])
    folder = json.loads(run("inspect", models / "llama", "--json")[0])
    expect("parameters", about["parameters"] == folder["parameters"])
    expect("config", {**about["config"], "torch_dtype": 0} == {**folder["config"], "torch_dtype": 0}, about["config"])
    expect("dtypes", {t["dtype"] for t in about["tensors"]} == {"F32", "F16", "Q8_0"})  # rows of 176 are no multiple of 32
    expect("metadata", about["metadata"]["general.architecture"] == "llama" and about["metadata"]["llama.block_count"] == 3, about["metadata"])
    expect("tokenizer", about["tokenizer"]["vocab_size"] == folder["tokenizer"]["vocab_size"] and about["chat_template"] is False)
    out, _ = run("inspect", golden / "gguf" / "q4_k_m.gguf")
    expect("K types are listed", "Q4_K" in out and "Q6_K" in out and "not supported" not in out)
    out, _ = run("generate", golden / "gguf" / "q4_k_m.gguf", "--prompt-ids", "1,2,3", "--max-tokens", 4, "--json")
    expect("K types are read", len(json.loads(out)["ids"]) == 4)
    text = temporary / "text.txt"
    text.write_text("One line of a text after the other.\n" * 20)
    losses = [json.loads(run("eval", path, "--data", text, "--json")[0])["loss"] for path in (models / "llama", temporary / "llama-f32.gguf")]
    expect("eval", losses[0] == losses[1], losses)
    ids = [run("tokenize", path, "Some text", "--json")[0] for path in (models / "llama", temporary / "llama-f32.gguf")]
    expect("tokenize", ids[0] == ids[1], ids)


def chats(temporary):
    folder = temporary / "talks"
    shutil.copytree(models / "llama", folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>"}')
    run("export", folder, temporary / "talks.gguf")
    flags = ["--max-tokens", 8, "--temperature", 0]
    answers = [run("chat", path, *flags, stdin="Hello\nAnd now?\n")[0] for path in (folder, temporary / "talks.gguf")]
    expect("the same answers", answers[0] == answers[1] and answers[0].strip(), answers)
    talk = temporary / "talk.json"
    talk.write_text(json.dumps([{"role": "user", "content": "Hi"}]))
    texts = [json.loads(run("tokenize", path, "--chat", talk, "--json")[0]) for path in (folder, temporary / "talks.gguf")]
    expect("the same text of a conversation", texts[0] == texts[1] and texts[0]["text"] == "<s>user: Hi</s><s>assistant:", texts)
    run("export", temporary / "talks.gguf", temporary / "talks again")
    expect("the template comes back", (temporary / "talks again" / "chat_template.jinja").read_text() == TEMPLATE)
    fails("no template", ["chat", temporary / "llama-f32.gguf"], "llama-f32.gguf: has no chat template")


def broken(temporary):
    whole, file = (temporary / "llama-q8_0.gguf").read_bytes(), temporary / "broken.gguf"
    for size in (3, 20, 200, 20000, len(whole) - 4000):
        file.write_bytes(whole[:size])
        for args in (["generate", file, "Hello"], ["inspect", file], ["export", file, temporary / "none"]):
            fails(f"cut to {size}, {args[0]}", args, "broken.gguf: ")
    expect("nothing is written from a broken file", not (temporary / "none").exists())
    for version, part in ((1, "GGUF version 1"), (struct.unpack(">I", struct.pack("<I", 3))[0], "big-endian")):
        file.write_bytes(whole[:4] + struct.pack("<I", version) + whole[8:])
        fails(f"version {version}", ["generate", file, "Hello"], part, code=3)
    file.write_bytes(whole.replace(b"llama.block_count", b"llama.block_kount"))
    fails("a missing key", ["generate", file, "Hello"], "broken.gguf: has no key 'llama.block_count'")
    file.write_bytes(whole.replace(b"tokenizer.ggml.merges", b"tokenizer.ggml.merged"))
    fails("no merges", ["generate", file, "Hello"], "broken.gguf: has no key 'tokenizer.ggml.merges'")
    fails("no tokenizer", ["generate", temporary / "qwen2-f32.gguf", "Hello"], "qwen2-f32.gguf has no tokenizer; pass prompts as --prompt-ids")
    file.write_bytes(whole.replace(b"smaug-bpe", b"smaug-bpf"))
    fails("an unknown pre-tokenizer", ["generate", file, "Hello"], "tokenizer.ggml.pre is 'smaug-bpf'; supported are gpt-2", code=3)
    target = temporary / "kept.gguf"
    target.write_text("kept")
    fails("an unknown dtype", ["export", models / "llama", target, "--dtype", "q4_K"], "f32, f16, bf16 or q8_0, got 'q4_K'")
    fails("q8_0 in a folder", ["export", models / "llama", temporary / "none", "--dtype", "q8_0"], "f32, bf16 or f16, got 'q8_0'")
    fails("onto itself", ["export", temporary / "llama-f32.gguf", temporary / "llama-f32.gguf"], "is the file the model was loaded from")
    expect("a refused export leaves the file", target.read_text() == "kept" and not (temporary / "none").exists())


with tempfile.TemporaryDirectory() as folder:
    for part in (there_and_back, inspected, chats, broken):
        part(pathlib.Path(folder))
finish()
