"""generate --logprobs and score: the numbers recorded while sampling equal those of the training forward pass, byte for byte."""
import json
import pathlib
import subprocess
import sys
import tempfile

from checks import expect, finish

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
golden = source / "tests/golden/models"


def run(*args, code=0):
    done = subprocess.run([tool, *map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    expect(f"exit code of {' '.join(map(str, args))}", done.returncode == code or (code is None and done.returncode > 0), (done.returncode, done.stdout[-300:], done.stderr[-600:]))
    return done.stdout if code == 0 else done.stderr


def numbers(line, key):
    """The text of the numbers of a list, as printed."""
    return line.split(f'"{key}":[')[1].split("]")[0].split(",")


def generated(folder, prompts, *args):
    out = run("generate", folder, *args, "--logprobs", "--json", *[a for p in prompts for a in ("--prompt-ids", ",".join(map(str, p)))])
    answers = json.loads(out)
    return answers if isinstance(answers, list) else [answers], out


def scored(folder, data, *args):
    return run("score", folder, "--data", data, "--json", *args).splitlines()


def compare(what, folder, prompts, directory, common, *args):
    """Every token's number, as printed, from generation and from scoring in passes of several sizes."""
    answers, out = generated(folder, prompts, *common, *args)
    path = directory / "pairs.jsonl"
    path.write_text(out)  # one line, a list: score reads it as it is
    recorded = [part.split("]")[0].split(",") for part in out.split('"logprobs":[')[1:]]  # as printed
    expect(f"{what}: a number for each token", [len(r) for r in recorded] == [len(a["ids"]) for a in answers], recorded)
    expect(f"{what}: of probabilities", all(a <= 0 for answer in answers for a in answer["logprobs"]), recorded)
    for batch in (1, 3, 8):
        lines = scored(folder, path, *common, "--batch", batch)
        expect(f"{what}: scored in passes of {batch}", [numbers(line, "logprobs") for line in lines] == recorded,
               [(a, b) for a, b in zip([numbers(line, "logprobs") for line in lines], recorded) if a != b][:2])
        sums = [json.loads(line) for line in lines]
        expect(f"{what}: sums", [(s["sum"], s["count"]) for s in sums] == [(a["logprob_sum"], len(a["ids"])) for a in answers], sums)
    return answers


PROMPTS = [[5, 6, 7, 8], [9], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9], [11, 12], [40, 41, 42, 43, 44, 45, 46], [1, 2, 3], [30] * 20]
SAMPLED = ["--temperature", "0.8", "--top-k", "20", "--top-p", "0.9", "--repetition-penalty", "1.2", "--seed", "3"]


def equal_bytes(directory):
    """A fine-tuned model and an adapter of one, greedy and sampled, in both dtypes, prompts decoded alone and in batches."""
    text = directory / "letters.txt"
    text.write_text("".join(f"Dear {name},\nthank you for letter {i}.\n\n" for i, name in enumerate(["Ada", "Emmy", "Kurt", "Alan"] * 30)))
    base, steps = golden / "llama", ["--steps", 8, "--batch", 2, "--sequence", 32]
    run("train", "--model", base, "--data", text, "--out", directory / "whole", *steps, "--learning-rate", "1e-3")
    run("train", "--model", base, "--data", text, "--out", directory / "lora", *steps, "--learning-rate", "1e-2", "--lora-rank", 4)
    models = {"trained": [directory / "whole/model"], "adapter": [base, "--adapter", directory / "lora/adapter"], "gpt2": [golden / "gpt2"]}
    for name, (folder, *adapter) in models.items():
        for dtype in ("f32", "bf16"):
            common = [*adapter, "--dtype", dtype]
            new = ["--max-tokens", 12, "--ignore-eos"]
            compare(f"{name} {dtype} greedy", folder, PROMPTS, directory, common, *new, "--temperature", 0)
            sampled = [compare(f"{name} {dtype} sampled in batches of {batch}", folder, PROMPTS, directory, common, *new, *SAMPLED, "--batch", batch)
                       for batch in (1, 3, 7)]
            ids = [[(a["ids"], a["logprobs"]) for a in answers] for answers in sampled]
            expect(f"{name} {dtype}: batches of 1, 3 and 7", ids[0] == ids[1] == ids[2])


def top_is_sorted(directory):
    answers, _ = generated(golden / "llama", PROMPTS[:2], "--max-tokens", 6, "--top-logprobs", 4, "--ignore-eos", "--temperature", 0)
    for answer in answers:
        for id, value, top in zip(answer["ids"], answer["logprobs"], answer["top_logprobs"]):
            expect("the greedy token is the most likely", top[0] == {"id": id, "logprob": value}, top)
            expect("k of them, descending", len(top) == 4 and [t["logprob"] for t in top] == sorted([t["logprob"] for t in top], reverse=True), top)
    text = run("generate", golden / "llama", "--prompt-ids", "5,6,7,8", "--max-tokens", 3, "--top-logprobs", 2, "--ignore-eos")
    lines = text.splitlines()
    expect("lines of the text output", len([line for line in lines if line.startswith("    ")]) == 6 and lines[0].startswith("-"), text)


def int8_weights(directory):
    """Weights in int8 made at loading: generation and scoring in passes of any size have the same bytes, in both dtypes; other commands take
    them, training and Metal say that they do not."""
    answers = {}
    for folder in ("llama", "qwen3", "gpt2", "mixtral"):
        for dtype in ("f32", "bf16"):
            common = ["--dtype", dtype, "--weights", "int8"]
            compare(f"{folder} {dtype} int8, batches of 3", golden / folder, PROMPTS, directory, common, "--max-tokens", 24, "--batch", 3)
            answers[folder, dtype] = compare(f"{folder} {dtype} int8, sampled", golden / folder, PROMPTS, directory, common, "--max-tokens", 24, *SAMPLED)
    plain, _ = generated(golden / "llama", PROMPTS, "--dtype", "f32", "--max-tokens", 24, *SAMPLED)
    expect("int8 differs from the stored weights", [a["logprobs"] for a in plain] != [a["logprobs"] for a in answers["llama", "f32"]])
    text = directory / "some.txt"
    text.write_text("Dear Ada, thank you for letter 3. " * 20)
    report = json.loads(run("eval", golden / "llama", "--data", text, "--dtype", "f32", "--weights", "int8", "--json"))
    alone = json.loads(run("eval", golden / "llama", "--data", text, "--dtype", "f32", "--json"))
    expect("eval has both perplexities", report["weights"] == "int8" and report["f32"]["loss"] == alone["loss"] and
           0 < abs(report["loss"] - alone["loss"]) < 0.05 * alone["loss"], (report, alone))
    err = run("generate", golden / "llama", "Hello", "--device", "metal-sim", "--weights", "int8", code=None)
    expect("Metal has no kernel", "int8" in err and ("metal" in err or "Metal" in err), err)
    err = run("train", "--model", golden / "llama", "--data", text, "--weights", "int8", "--out", directory / "never", code=2)
    expect("training has no int8 weights", "--weights" in err and not (directory / "never").exists(), err)


def errors(directory):
    def refused(what, words, lines, *args, code=2):
        path = directory / "wrong.jsonl"
        path.write_text("\n".join(lines) + "\n")
        err = run("score", golden / "llama", "--data", path, *args, code=code)
        expect(what, all(word in err for word in words), err)

    good = json.dumps({"prompt": [1, 2], "completion": [3]})
    refused("not JSON", ["wrong.jsonl:2"], [good, "{"])
    refused("no completion", ["wrong.jsonl:1", "completion"], [json.dumps({"prompt": [1]})])
    refused("an id out of range", ["wrong.jsonl:2", "99999"], [good, json.dumps({"prompt": [1], "completion": [99999]})])
    refused("an empty prompt", ["wrong.jsonl:1", "prompt", "zero tokens"], [json.dumps({"prompt": [], "completion": [1]})])
    refused("a number", ["wrong.jsonl:1", "prompt", "7"], [json.dumps({"prompt": 7, "completion": [1]})])
    refused("too long", ["wrong.jsonl:2", "context"], [good, json.dumps({"prompt": [1] * 5000, "completion": [1]})])
    refused("nothing", ["wrong.jsonl", "no pairs"], [""])
    refused("a batch of none", ["--batch", "0"], [good], "--batch", 0)
    expect("no such file", "nowhere.jsonl" in run("score", golden / "llama", "--data", directory / "nowhere.jsonl", code=2))
    run("generate", golden / "llama", "--prompt-ids", "1", "--top-logprobs", -1, code=2)


def texts(directory):
    """Texts are tokenised separately; ids and texts of the same tokens have the same numbers."""
    path = directory / "texts.jsonl"
    path.write_text(json.dumps({"prompt": "Hello", "completion": " world"}) + "\n")
    (line,) = scored(golden / "llama", path)
    ids = json.loads(line)["ids"]
    prompt = json.loads(run("tokenize", golden / "llama", "Hello", "--json"))["ids"]
    path.write_text(json.dumps({"prompt": prompt, "completion": ids}) + "\n")
    (again,) = scored(golden / "llama", path)
    expect("text and ids", line == again, (line, again))
    shown = run("score", golden / "llama", "--data", path)
    expect("the text output", numbers(line, "logprobs")[0] in shown and "1 pairs" in shown, shown)


def conversations(directory):
    """The last message is the completion: the ids are those of the rendered conversation."""
    template, path = directory / "chat.jinja", directory / "chat.jsonl"
    template.write_text("{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")
    user, answer = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
    path.write_text(json.dumps({"messages": [user, answer]}) + "\n")
    (line,) = scored(golden / "llama", path, "--template-file", template)
    tokens = json.loads(run("tokenize", golden / "llama", "[user]Hi\n[assistant]Hello\n", "--json"))["ids"]
    ids = json.loads(line)["ids"]
    expect("the answer's ids", tokens[-len(ids):] == ids and 0 < len(ids) < len(tokens), (tokens, ids))
    path.write_text(json.dumps({"messages": [user]}) + "\n")
    err = run("score", golden / "llama", "--data", path, "--template-file", template, code=2)
    expect("a conversation without an answer", "chat.jsonl:1" in err and "assistant" in err, err)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        top_is_sorted(directory)
        errors(directory)
        texts(directory)
        conversations(directory)
        equal_bytes(directory)
        int8_weights(directory)
    finish()
