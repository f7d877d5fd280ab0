"""sft.py TOOL SOURCE: weft train --task sft as a stranger uses it. A small model learns answers from conversations; the exported folder gives
them with weft chat and weft generate, and stops; the same weights after SIGKILL and by two ranks; LoRA; every error."""
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checks import expect, finish
from mpi import ENVIRONMENT, command

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
ANSWERS = {"What is your name?": "I am Weft.", "Say hello.": "Hello there!", "What do you do?": "I run transformers.", "Is it late?": "No, it is early."}
OTHER = {question: answer.upper() for question, answer in ANSWERS.items()}
TINY = ["--width", 64, "--layers", 2, "--heads", 4, "--context", 256]
TRAINED = ["--sequence", 192, "--warmup", 10, "--evaluate-every", 0, "--validation", 0]


def run(*args, code=0, lines=None):
    """The tool's stdout and stderr. `lines`: what is piped in."""
    done = subprocess.run([tool, *map(str, args)], capture_output=True, input="".join(line + "\n" for line in lines or []), encoding="utf-8")
    if done.returncode != code:
        sys.exit(f"weft {' '.join(map(str, args))}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def conversations(answers):
    """All forms of a line."""
    lines, pairs = [], list(answers.items())
    for i in range(12):
        question, answer = pairs[i % 4]
        then, more = pairs[(i + 1) % 4]
        lines += [{"messages": [user(question), assistant(answer)]}, {"prompt": question, "completion": answer},
                  {"prompt": [user(question), assistant(answer), user(then)], "completion": [assistant(more)]},
                  {"messages": [user(question), assistant(answer), user(then), assistant(more)]}]
    return lines


def base_model(folder):
    """A folder with a chat template that has never seen a conversation."""
    (folder / "text.txt").write_text("Some text of no use. " * 30)
    run("train", "--data", folder / "text.txt", "--chat-template", "chatml", "--vocabulary", "bytes", *TINY, "--sequence", 64, "--steps", 2, "--cache", folder / "cache",
        "--sample-tokens", 0, "--out", folder / "base")
    return folder / "base/model"


def answers_of(model, *args):
    out, _ = run("chat", model, *args, "--temperature", 0, "--max-tokens", 60, lines=[line for question in ANSWERS for line in ("/reset", question)])
    return out.splitlines()


def check_exported(name, model, answers, folder):
    expect(f"{name}: weft chat", answers_of(model) == list(answers.values()), answers_of(model))
    question = write_lines(folder / "question.jsonl", [{"messages": [user("Say hello.")]}])
    out, _ = run("generate", model, "--chat", question, "--json", "--temperature", 0, "--max-tokens", 60)
    shown = json.loads(out)
    shown = shown[0] if isinstance(shown, list) else shown
    expect(f"{name}: weft generate stops", shown["finish_reason"] in ("eos", "stop", "end") and answers["Say hello."] in shown["text"], shown)
    ids = json.loads((model / "generation_config.json").read_text())["eos_token_id"]
    expect(f"{name}: <|im_end|> ends a text", 258 in ids if isinstance(ids, list) else ids == 258, ids)
    expect(f"{name}: the template", (model / "chat_template.jinja").exists())


def trained(folder, model):
    """All weights, from TOML; the plan, the report and the metrics."""
    data = write_lines(folder / "chat.jsonl", conversations(ANSWERS))
    (folder / "sft.toml").write_text(f'task = "sft"\ndata = "{data}"\nmodel = "{model}"\ncache = "{folder}/cache"\nsteps = 160\nvalidation = 0.1\nevaluate_every = 80\n'
                                     f'sequence = 192\nlearning_rate = 0.004\nwarmup = 10\nbatch = 8\nsample_tokens = 40\n')
    plan, _ = run("train", "--config", folder / "sft.toml", "--plan")
    expect("the plan has the share", re.search(r"the loss counts \d+\.\d % of the tokens: the answers", plan), plan)
    _, err = run("train", "--config", folder / "sft.toml", "--out", folder / "tuned")
    expect("the data", re.search(r"48 conversations of \d+ tokens .*, of which \d+\.\d % count; 43 for training and 5 for validation", err), err[:600])
    check_exported("all weights", folder / "tuned/model", ANSWERS, folder)
    expect("the report has the share", re.search(r"counted in the loss.{0,80}% of the tokens", (folder / "tuned/report.html").read_text(), re.DOTALL))
    metrics = [json.loads(line) for line in (folder / "tuned/metrics.jsonl").read_text().splitlines()]
    expect("the metrics have the share", all(0 < row["counted_share"] < 0.5 for row in metrics if "loss" in row), metrics[0])
    expect("the answers are evaluated", metrics[-2]["validation_loss"] < 0.2, metrics[-2])
    sample = [row for row in metrics if "sample" in row][-1]
    expect("the sample is an answer", sample["prompt"].endswith("<|im_end|>\n<|im_start|>assistant\n") and sample["sample"].removesuffix("<|im_end|>") in ANSWERS.values(), sample)


def killed(folder, model):
    """SIGKILL and --resume: the bytes of a run that was never stopped."""
    data = folder / "chat.jsonl"
    common = ["train", "--task", "sft", "--data", data, "--model", model, *TRAINED, "--learning-rate", 0.004, "--cache", folder / "cache", "--steps", 30, "--save-every", 1, "--sample-tokens", 0,
              "--pass-tokens", 200]  # several micro-batches a step, which ranks share
    run(*common, "--out", folder / "whole")
    out = folder / "killed"
    process = subprocess.Popen([tool, *map(str, common), "--out", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(list(out.glob("checkpoints/*.safetensors"))) == 0:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, err = run("train", "--resume", "--out", out)
    expect("resumed", "resuming after step" in err, err[:400])
    weights = [(folder / name / "model/model.safetensors").read_bytes() for name in ("whole", "killed")]
    expect("the same weights after SIGKILL", weights[0] == weights[1])
    if shutil.which("mpirun") and re.search(r"(?m)^MPI +Open MPI", run("devices")[0]):
        done = subprocess.run(command(2, *common[1:], "--out", folder / "ranks"), env=ENVIRONMENT, capture_output=True, text=True)
        expect("two ranks", done.returncode == 0 and (folder / "ranks/model/model.safetensors").read_bytes() == weights[0], done.stderr[:400])
    data_line = json.dumps({"prompt": "x", "completion": "y"}) + "\n"
    changed = folder / "changed.jsonl"
    changed.write_text(data.read_text() + data_line)
    _, err = run("train", "--resume", "--out", out, "--data", changed, "--steps", 40, code=2)
    expect("changed data", "encodes to other ids than when the run" in err, err)


def adapters(folder):
    data = write_lines(folder / "other.jsonl", conversations(OTHER))
    run("train", "--task", "sft", "--data", data, "--model", folder / "tuned/model", *TRAINED, "--batch", 8, "--steps", 160, "--lora-rank", 8, "--lora-targets", "all-linear",
        "--learning-rate", 0.01, "--cache", folder / "cache", "--sample-tokens", 0, "--out", folder / "lora")
    check_exported("LoRA", folder / "lora/model", OTHER, folder)
    expect("the adapter", answers_of(folder / "tuned/model", "--adapter", folder / "lora/adapter") == list(OTHER.values()))


def errors(folder, model):
    good = {"messages": [user("a"), assistant("b")]}

    sums, dpo = folder / "sums.toml", folder / "dpo.toml"
    sums.write_text('task = "sft"\ndata = "sums"\n')
    dpo.write_text('task = "dpo"\n')

    def refused(what, words, lines, *more):
        path = folder / "bad.jsonl"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        chosen = [] if "--config" in more else ["--task", "sft", "--data", path]
        _, err = run("train", *chosen, "--cache", folder / "cache", "--out", folder / "refused", *(more or ["--model", model]), code=2)
        last = err.splitlines()[-1]
        expect(what, last.startswith("weft: ") and all(word in last for word in words), err)

    refused("a broken line", ["bad.jsonl:2: ", "JSON"], [good, '{"messages": ['])
    refused("an unknown role", ["bad.jsonl:2: message 1 has the role 'bot', expected system, developer, user, assistant or tool"], [good, {"messages": [user("a"), {"role": "bot", "content": "b"}]}])
    refused("an empty completion", ["bad.jsonl:1: its \"completion\" is empty"], [{"prompt": "a", "completion": ""}])
    refused("an empty answer", ["bad.jsonl:1: message 1 is an empty answer"], [{"messages": [user("a"), assistant("  ")]}])
    refused("no answer", ["bad.jsonl:3: has no message of the assistant"], [good, good, {"messages": [user("a")]}])
    refused("text", ["bad.jsonl:1: has neither \"messages\" nor \"prompt\" and \"completion\""], [{"text": "a"}])
    refused("too long", ["none of 1 has an answer in its first 16 tokens"], [good], "--model", model, "--sequence", 16, "--validation", 0)
    refused("tool calls that the template leaves out", ["bad.jsonl:1: the chat template writes an answer as special tokens alone"],
            [{"messages": [user("a"), assistant("", tool_calls=[{"function": {"name": "f"}}])]}])
    refused("and no content beside them", ["bad.jsonl:1: the chat template writes an answer as special tokens alone"],
            [{"messages": [user("a"), assistant(None, tool_calls=[{"function": {"name": "f"}}])]}])
    refused("the template refuses", ["bad.jsonl:1: ", "chat_template.jinja"], [{"messages": [user([{"type": "text", "text": "a"}]), assistant("b")]}])
    refused("the template refuses it while its characters are collected", ["bad.jsonl:2: chatml: line "],
            [good, {"messages": [user([{"type": "text", "text": "a"}]), assistant("b")]}], "--chat-template", "chatml", "--vocabulary", "characters")
    refused("no template", ["has no chat template; pass --chat-template chatml"], [good], "--model", source / "tests/golden/models/llama")
    refused("no tokenizer", ["there is no chat template", "--chat-template chatml"], [good], "--vocabulary", "bytes")
    refused("sums", ["task is set, but sums are not conversations"], [good], "--config", sums)
    refused("an unknown task", ["task is 'dpo', expected pretrain or sft"], [good], "--config", dpo)
    refused("an end token", ["end_token is set, but the chat template writes all tokens"], [good], "--model", model, "--end-token", "x")

    run("prepare", "--data", folder / "text.txt", "--vocabulary", "bytes", "--out", folder / "prepared")
    _, err = run("train", "--task", "sft", "--data", folder / "prepared", "--model", model, "--out", folder / "refused", code=2)
    expect("prepared ids", "prepared: holds prepared ids, which do not tell answers from questions; --task sft takes the conversations" in err, err)

    lacking = folder / "lacking"
    lacking.mkdir()
    for file in model.iterdir():
        (lacking / file.name).write_bytes(file.read_bytes())
    tokenizer = json.loads((lacking / "tokenizer.json").read_text())
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if not token["content"].startswith("<|im_")]
    (lacking / "tokenizer.json").write_text(json.dumps(tokenizer))
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (lacking / name).exists():
            config = {key: value for key, value in json.loads((lacking / name).read_text()).items() if "_token" not in key and "tokens" not in key}
            (lacking / name).write_text(json.dumps(config))
    (lacking / "generation_config.json").unlink(missing_ok=True)
    refused("a tokenizer without the template's tokens", ["<|im_end|>, which is not a special token of the tokenizer: it is split into 10 tokens"], [good], "--model", lacking)

    write_lines(folder / "long.jsonl", [good, {"messages": [user("a"), assistant("b" * 60)]}, {"messages": [user("a" * 90), assistant("b")]}])
    _, err = run("train", "--task", "sft", "--data", folder / "long.jsonl", "--model", model, "--sequence", 64, "--steps", 1, "--validation", 0, "--cache", folder / "cache",
                 "--sample-tokens", 0, "--out", folder / "long")
    expect("long conversations are counted", "of 3 conversations 1 is cut to the first 64 tokens, and 1 is left out" in err, err)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    model = base_model(folder)
    trained(folder, model)
    killed(folder, model)
    adapters(folder)
    errors(folder, model)
finish()
