"""weft chat on piped lines, generate --chat and tokenize --chat: a small model is trained on conversations, exported and talked with."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from checks import expect, finish

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
ANSWERS = {"What is your name?": "I am Weft.", "Say hello.": "Hello there!", "What do you do?": "I run transformers.", "Is it late?": "No, it is early."}
TINY = ["--vocabulary", "bytes", "--width", 64, "--layers", 2, "--heads", 4, "--sequence", 96, "--context", 192, "--batch", 8, "--validation", 0,
        "--learning-rate", 0.004, "--warmup", 10, "--evaluate-every", 0]


def run(*args, code=0, lines=None):
    """The tool's stdout and stderr. `lines`: what is piped in."""
    done = subprocess.run([tool, *map(str, args)], capture_output=True, input="".join(line + "\n" for line in lines or []), encoding="utf-8")
    if done.returncode != code:
        sys.exit(f"weft {' '.join(map(str, args))}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def refused(what, words, *args, code=2, lines=None):
    out, err = run(*args, code=code, lines=lines)
    expect(what, all(word in err for word in words) and err.count("\n") <= 2, err)


def chat(model, *lines, args=(), code=0):
    out, err = run("chat", model, *args, code=code, lines=lines)
    return out.splitlines(), err


def rendered(messages, prompt=True):
    text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return text + "<|im_start|>assistant\n" * prompt


def messages_in(path):
    """Of a saved conversation: a list, or an object with the template's variables."""
    saved = json.loads(path.read_text())
    return saved if isinstance(saved, list) else saved["messages"]


def user(text):
    return {"role": "user", "content": text}


def write_conversations(path):
    with open(path, "w") as file:
        for i in range(40):
            pairs = list(ANSWERS.items())
            for question, answer in pairs:
                file.write(json.dumps({"messages": [user(question), {"role": "assistant", "content": answer}]}) + "\n")
            two = [m for question, answer in (pairs[i % 4], pairs[(i + 1) % 4]) for m in (user(question), {"role": "assistant", "content": answer})]
            file.write(json.dumps({"messages": two}) + "\n")


def train(folder):
    """A model that answers the questions; the run is stopped and resumed on its way."""
    data = folder / "talk.jsonl"
    write_conversations(data)
    refused("conversations without a template", ["talk.jsonl:1", "--chat-template chatml"], "train", "--data", data, "--out", folder / "none", *TINY)
    refused("an unknown template", ["chat_template is 'chatlm'", "chatml"], "train", "--data", data, "--chat-template", "chatlm", "--out", folder / "none")
    refused("sums have no template", ["chat_template"], "train", "--chat-template", "chatml", "--out", folder / "none")
    # Conversations of one question each: packed apart, the model would never see a second turn.
    flags = ["train", "--data", data, "--chat-template", "chatml", "--packing", "concatenate", *TINY]
    run(*flags, "--steps", 200, "--out", folder / "run")
    first = folder / "stopped"
    run(*flags, "--steps", 200, "--save-every", 100, "--keep", 9, "--out", first)
    max((first / "checkpoints").iterdir()).unlink()  # as if it had been killed before
    shutil.rmtree(first / "model")
    run("train", "--resume", "--out", first)
    same = (first / "model/model.safetensors").read_bytes() == (folder / "run/model/model.safetensors").read_bytes()
    expect("a resumed run has the same weights", same)
    refused("a resumed run keeps its template", ["--chat-template chatml"], "train", "--resume", "--out", first, "--chat-template", "")
    return folder / "run/model"


def files_of(model):
    config = json.loads((model / "tokenizer_config.json").read_text())
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    generation = json.loads((model / "generation_config.json").read_text())
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    expect("the special tokens", added == {"<|endoftext|>": 256, "<|im_start|>": 257, "<|im_end|>": 258}, added)
    expect("the end of a turn", config["eos_token"] == "<|im_end|>" and generation["eos_token_id"] == [258, 256], generation)
    expect("the template in both places", config["chat_template"] == (model / "chat_template.jinja").read_text())
    expect("embeddings for all", json.loads((model / "config.json").read_text())["vocab_size"] == 259)
    about = json.loads(run("inspect", model, "--json")[0])["chat_template"]
    expect("inspect", about == {"names": ["default"], "parses": True, "marks_answers": True}, about)
    expect("inspect says who applies it", "applied by weft chat" in run("inspect", model)[0])


def tokenize(folder, model):
    talk = [{"role": "system", "content": "Be brief."}, user("Say hello."), {"role": "assistant", "content": "Hello there!"}]
    path = folder / "talk.json"
    path.write_text(json.dumps(talk))
    shown = json.loads(run("tokenize", model, "--chat", path, "--json", "--no-generation-prompt")[0])
    expect("the rendered text", shown["text"] == rendered(talk, False) == shown["decoded"], shown["text"])
    marked = bytes(id for id, mark in zip(shown["ids"], shown["generated"]) if mark and id < 256).decode()
    expect("the mask", marked == "Hello there!" and shown["generated"][shown["ids"].index(258, -10)] == 1, marked)
    expect("a generation prompt", json.loads(run("tokenize", model, "--chat", path, "--json")[0])["text"] == rendered(talk))
    both = folder / "two.jsonl"
    both.write_text(json.dumps({"messages": talk}) + "\n\n" + json.dumps(talk) + "\n")
    two = json.loads(run("tokenize", model, "--chat", both, "--json")[0])
    expect("a line, a conversation", len(two) == 2 and two[0] == two[1])
    lines = run("tokenize", model, "--chat", path)[0].splitlines()
    expect("the tokens as lines", lines[0] == "     257  <|im_start|>  (special)" and any("(generated)" in line for line in lines), lines[0])
    refused("a text beside --chat", ["--chat"], "tokenize", model, "text", "--chat", path)
    refused("a template without --chat", ["--chat"], "tokenize", model, "text", "--set", "a=1")
    (folder / "bad.json").write_text('[{"role": "user", "content": "a"}')
    refused("damaged JSON", ["bad.json"], "tokenize", model, "--chat", folder / "bad.json")
    refused("no such file", ["nowhere.json"], "tokenize", model, "--chat", folder / "nowhere.json")


def generate(folder, model):
    """Answers of generate --chat equal those of chat, alone and in a batch."""
    files = []
    for i, question in enumerate(ANSWERS):
        files.append(folder / f"question{i}.json")
        files[-1].write_text(json.dumps([user(question)]))
    alone = [json.loads(run("generate", model, "--chat", path, "--json")[0]) for path in files]
    expect("the questions are answered", [one["text"] for one in alone] == list(ANSWERS.values()), alone)
    expect("an answer ends with the turn", all(one["finish_reason"] == "eos" and one["ids"][-1] == 258 for one in alone))
    flags = [flag for path in files for flag in ("--chat", path)]
    batch = json.loads(run("generate", model, *flags, "--json", "--batch", 3)[0])
    expect("a batch", [one["ids"] for one in batch] == [one["ids"] for one in alone])
    out = json.loads(run("generate", model, "--chat", "-", "--json", lines=[json.dumps([user(q)]) for q in ANSWERS])[0])
    expect("standard input", [one["ids"] for one in out] == [one["ids"] for one in alone])
    refused("a prompt beside --chat", ["--chat"], "generate", model, "Once", "--chat", files[0])
    refused("a variable without --chat", ["--chat"], "generate", model, "Once", "--set", "a=1")
    refused("longer than the context", ["context"], "generate", model, "--chat", "-", lines=[json.dumps([user("a" * 300)])])
    plain = source / "tests/golden/models/llama"
    refused("no template", ["no chat template", "--template-file", "--chat-template chatml"], "generate", plain, "--chat", files[0])
    given = run("generate", plain, "--chat", files[0], "--template-file", model / "chat_template.jinja", "--max-tokens", 3, "--json")[0]
    expect("a template file", len(json.loads(given)["ids"]) <= 3, given)


def piped(folder, model):
    questions = list(ANSWERS)
    out, err = chat(model, questions[0], questions[1])
    expect("piped lines are answered in order", out == [ANSWERS[questions[0]], ANSWERS[questions[1]]], out)
    expect("no prompts and no colour", err == "", err)
    out, err = chat(model, "", "  ", "Say \\", "hello.", args=["--verbose"])
    expect("an empty line says nothing, a backslash continues", len(out) == 1 and "prompt of 30 tokens" in err, err)  # one more: the newline
    for block in (['"""', "Say hello.", '"""'], ['"""Say hello."""'], ['"""Say hello.', '"""'], ['"""', 'Say hello."""']):
        expect(f"a block {block}", chat(model, *block)[0] == ["Hello there!"], chat(model, *block))
    out, err = chat(model, '"""', "/help", "/exit", '"""', "/save " + str(folder / "block.json"))
    expect("a block is no command", messages_in(folder / "block.json")[0] == user("/help\n/exit"))
    out, err = chat(model, "//slash", "/save " + str(folder / "slash.json"))
    expect("two slashes", messages_in(folder / "slash.json")[0] == user("/slash"))
    out, err = chat(model, "Say hello.", "/exit", "Say hello.")
    expect("/exit", out == ["Hello there!"], out)
    out, err = chat(model, '"""', "Say hello.", code=2)
    expect("an open block", out == [] and "ends inside a block" in err, err)


def commands(folder, model):
    saved = folder / "saved.json"
    out, err = chat(model, "What is your name?", f"/save {saved}", "/reset", "Say hello.", f"/save {folder / 'reset.json'}", f"/load {saved}",
                    "What do you do?", f"/save {folder / 'loaded.json'}", args=["--system", ""])
    messages = messages_in(saved)
    expect("/save", messages == [user("What is your name?"), {"role": "assistant", "content": "I am Weft."}], messages)
    expect("/reset", messages_in(folder / "reset.json")[0] == user("Say hello."))
    expect("/load", messages_in(folder / "loaded.json")[:3] == messages + [user("What do you do?")])
    again = json.loads(run("generate", model, "--chat", "-", "--json", lines=[json.dumps(messages + [user("What do you do?")])])[0])
    expect("a loaded chat answers as generate --chat", out[-1] == again["text"], (out, again))
    out, err = chat(model, f"/load {saved}", "/regenerate")
    expect("/regenerate after /load", out == ["I am Weft."], out)
    out, err = chat(model, "/system Be brief.", "Say hello.", f"/save {folder / 'system.json'}", "/system", "/reset", f"/save {folder / 'none.json'}")
    expect("/system", messages_in(folder / "system.json")[0] == {"role": "system", "content": "Be brief."})
    expect("/system alone removes it", messages_in(folder / "none.json") == [])
    out, err = chat(model, "/set enable_thinking false", "/set language de", f"/save {folder / 'set.json'}", args=["--set", "year=3"])
    expect("variables of the template", {k: v for k, v in json.loads((folder / "set.json").read_text()).items() if k != "messages"} ==
           {"year": 3, "enable_thinking": False, "language": "de"})
    out, err = chat(model, "/set temperature 0.5", "/set top_k 3", "/set", "/help")
    expect("/set shows what is set", "temperature 0.5, top-k 3" in err and "/regenerate" in err, err)
    for line, words in {"/exti": ["unknown command /exti", "did you mean /exit?"], "/zzz": ["unknown command /zzz", "/help"], "/reset now": ["/reset"],
                        "/set temprature 1": ["did you mean temperature?"], "/set temperature hot": ["'hot'"], "/set temperature -1": ["-1"],
                        "/set max-tokens 0": ["max-tokens"], "/set seed": ["no value"], "/save": ["/save FILE"], "/load": ["/load FILE"],
                        f"/load {folder / 'nothing'}": ["nothing"], "/regenerate": ["no message"], f"/save {folder / 'no/where.json'}": ["no/where.json"],
                        f"/save {source / 'README.md'}": ["README.md", "not replaced"]}.items():
        out, err = chat(model, line, "Say hello.", code=2)
        expect(f"{line} is refused in one sentence, and the chat goes on", out == ["Hello there!"] and all(word in err for word in words) and
               err.count("\n") == 1, err)


def sampling(folder, model):
    hot = ["--temperature", "1.5", "--max-tokens", "12", "--verbose"]
    out, err = chat(model, "Say hello.", "/regenerate", "/regenerate", "/set seed 0", "/regenerate", "/set seed 7", "/regenerate", args=hot)
    # Each draw differs, and a seed that is set again starts over.
    expect("/regenerate draws again", len(set(out[:3])) == 3 or len(set(out)) > 2, out)
    other = chat(model, "Say hello.", args=[*hot, "--seed", 7])[0]
    expect("a seed repeats an answer", out[-1] == other[-1], (out, other))
    expect("only the last token of the prompt is computed again", re.findall(r"(\d+) reused, (\d+) computed", err)[1:3] == [("28", "1")] * 2, err)
    path = folder / "hello.json"
    path.write_text(json.dumps([user("Say hello.")]))
    answer = json.loads(run("generate", model, "--chat", path, "--json", *hot[:4], "--seed", 7)[0])
    expect("generate --chat draws the same", other == answer["text"].splitlines(), (other, answer))


def cache(model):
    """The longest common prefix is reused, and answers do not change by it."""
    questions = list(ANSWERS)
    for dtype in ("f32", "bf16"):
        out, err = chat(model, *questions[:3], args=["--verbose", "--dtype", dtype])
        turns = [tuple(map(int, found)) for found in re.findall(r"prompt of (\d+) tokens: (\d+) reused, (\d+) computed", err)]
        expect("both numbers", all(prompt == reused + computed for prompt, reused, computed in turns), turns)
        expect("what was said is reused", [t[1] for t in turns][0] == 0 and turns[1][1] == turns[0][0] + len(out[0]) and
               turns[2][1] == turns[1][0] + len(out[1]), (turns, out))
        talk = []
        for question, answer in zip(questions, out):
            talk.append(user(question))
            fresh = json.loads(run("generate", model, "--chat", "-", "--dtype", dtype, "--json", lines=[json.dumps(talk)])[0])
            expect(f"{dtype}: a new cache gives the same answer", fresh["text"] == answer, (fresh, answer))
            talk.append({"role": "assistant", "content": answer})


def changed_past(folder, model):
    """A template that shows earlier answers differently, as those that strip reasoning: what follows the change is computed again."""
    template = folder / "strips.jinja"
    template.write_text("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ '-' if m.role == 'assistant' and not loop.last else m.content }}<|im_end|>\n"
                        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    flags, questions = ["--template-file", template], list(ANSWERS)
    _, err = chat(model, *questions[:3], f"/save {folder / 'changed.json'}", args=["--verbose", *flags])
    turns = [tuple(map(int, found)) for found in re.findall(r"prompt of (\d+) tokens: (\d+) reused, (\d+) computed", err)]
    # A turn shares all but the answer with the one before it: its prompt, and where both changed the same way the answers before.
    expect("the common prefix ends where the past changed", [t[1] for t in turns] == [0, turns[0][0], turns[1][0]] and
           all(prompt == reused + computed for prompt, reused, computed in turns), turns)
    talk = messages_in(folder / "changed.json")
    fresh = [json.loads(run("generate", model, "--chat", "-", "--json", *flags, lines=[json.dumps(talk[:n])])[0]) for n in (1, 3, 5)]
    same = [talk[n]["content"].startswith(one["text"]) for n, one in zip((1, 3, 5), fresh)]  # generate stops after 128 tokens
    expect("a new cache gives the same answers to a changed past", all(same) and len(fresh[1]["text"]) > 5, (fresh, talk))


def context(folder, model):
    """A conversation longer than the context of 192 tokens: the oldest turns are dropped and it is said."""
    lines = list(ANSWERS) * 2
    out, err = chat(model, *lines, f"/save {folder / 'long.json'}", args=["--system", "Be brief.", "--verbose", "--max-tokens", 30])
    expect("a notice", "the context of 192 tokens is full: the oldest" in err, err)
    sizes = [int(n) for n in re.findall(r"prompt of (\d+) tokens", err)]
    expect("the prompts fit", len(sizes) == 8 and max(sizes) + 30 <= 192, sizes)
    expect("the whole conversation is kept", len(messages_in(folder / "long.json")) == 17)
    out, err = chat(model, "Say hello.", "a" * 200, "Say hello.", code=2)
    expect("a message that does not fit", out[0] == "Hello there!" and len(out) == 2 and "does not fit" in err and "192" in err, (out, err))


def errors(folder, model):
    refused("no template", ["no chat template", "--template-file"], "chat", source / "tests/golden/models/llama")
    refused("no tokenizer", ["tokenizer.json"], "chat", source / "tests/golden/models/qwen2")
    refused("no folder", ["nowhere"], "chat", folder / "nowhere")
    refused("no such device", ["CUDA"], "chat", model, "--device", "cuda:99", code=3)
    refused("a wrong setting", ["top_p"], "chat", model, "--top-p", 3)
    refused("an unknown template", ["tool_use"], "chat", model, "--template", "tool_use")
    broken = folder / "broken"
    shutil.copytree(model, broken)
    (broken / "chat_template.jinja").write_text("{% for m in messages %}\n{{ m.content }\n{% endfor %}")
    refused("a broken template", ["chat_template.jinja", "2"], "chat", broken)
    about = json.loads(run("inspect", broken, "--json")[0])["chat_template"]
    expect("inspect of a broken template", about["parses"] is False and "chat_template.jinja" in about["error"], about)
    (broken / "chat_template.jinja").write_text("{{ raise_exception('Only one message.') if messages | length > 1 else messages[0].content }}")
    out, err = chat(broken, "a", "b", "/reset", "a", args=["--max-tokens", 3], code=2)
    expect("a template that refuses", len(out) >= 2 and "Only one message." in err, (out, err))
    (broken / "chat_template.jinja").write_text("{# nothing #}")
    out, err = chat(broken, "a", code=2)
    expect("a template that writes nothing", "zero tokens" in err, err)
    (broken / "chat_template.jinja").write_text("{% include 'other' %}")
    refused("a tag that is not supported", ["chat_template.jinja", "include"], "chat", broken, code=3)
    (broken / "chat_template.jinja").write_text("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")
    out, err = chat(broken, "a", code=2)
    expect("a template that calls itself", "chat_template.jinja" in err and err.count("\n") == 1, err)
    done = subprocess.run([tool, "chat", str(model)], input=b"caf\xe9\n", capture_output=True)
    expect("a line that is no UTF-8", done.returncode == 2 and b"UTF-8" in done.stderr, done)


def export(folder, model):
    run("export", model, folder / "exported", "--dtype", "bf16")
    expect("an exported model chats", chat(folder / "exported", "What is your name?")[0] == ["I am Weft."])


def finetune(folder):
    """A folder without the tokens: its embeddings grow. LoRA cannot."""
    base, data = source / "tests/golden/models/llama", folder / "talk.jsonl"
    before = json.loads((base / "config.json").read_text())["vocab_size"]
    flags = ["train", "--model", base, "--data", data, "--chat-template", "chatml", "--sequence", 64, "--batch", 2, "--steps", 2, "--validation", 0,
             "--end-token", "none"]
    out, err = run(*flags, "--out", folder / "tuned")
    after = json.loads((folder / "tuned/model/config.json").read_text())["vocab_size"]
    vocabulary = json.loads((folder / "tuned/model/tokenizer.json").read_text())["model"]["vocab"]
    ids = [vocabulary["<|im_start|>"], vocabulary["<|im_end|>"]]
    expect("the model grows by what it lacks", ids[1] == ids[0] + 1 and after == max(before, ids[1] + 1), (before, after, ids))
    expect("it is said", after == before or "the model grows by" in err, err)
    expect("a tuned folder chats", len(chat(folder / "tuned/model", "Say hello.", args=["--max-tokens", 3])[0]) >= 1)
    if after > before:
        refused("LoRA does not train embeddings", ["lora_rank"], *flags, "--lora-rank", 2, "--out", folder / "lora")
    # The folder has the tokens now: LoRA adapts it, and plain training of conversations uses its template.
    tuned = folder / "tuned/model"
    run("train", "--model", tuned, "--data", data, "--sequence", 64, "--batch", 2, "--steps", 1, "--validation", 0, "--out", folder / "own")
    expect("the folder's own template is kept", (folder / "own/model/chat_template.jinja").read_text() == (tuned / "chat_template.jinja").read_text())
    run("train", "--model", tuned, "--data", data, "--chat-template", "chatml", "--lora-rank", 2, "--sequence", 64, "--batch", 2, "--steps", 1,
        "--validation", 0, "--out", folder / "lora")
    expect("an adapter chats", len(chat(tuned, "Say hello.", args=["--adapter", folder / "lora/adapter", "--max-tokens", 3])[0]) >= 1)


with tempfile.TemporaryDirectory() as temporary:
    place = pathlib.Path(temporary)
    os.environ["WEFT_CACHE"] = str(place / "cache")
    os.environ["XDG_STATE_HOME"] = str(place / "state")
    trained = train(place)
    files_of(trained)
    tokenize(place, trained)
    generate(place, trained)
    piped(place, trained)
    commands(place, trained)
    sampling(place, trained)
    cache(trained)
    changed_past(place, trained)
    context(place, trained)
    errors(place, trained)
    export(place, trained)
    finetune(place)
    expect("piped lines are not kept", not (place / "state").exists())
finish()
