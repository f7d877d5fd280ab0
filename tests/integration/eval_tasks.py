"""weft eval --task: equal to lm-eval's results item by item (tests/golden/tasks/expected.json), the same in every batch, errors that name the
line."""
import json
import pathlib
import subprocess
import sys
import tempfile

from checks import expect, finish

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
tasks = source / "tests/golden/tasks"
model = tasks / "model"
# Logits of this model are below 32, where neighbouring f32 are 2e-6 apart. Two orders of the same sums, and lm-eval's sum over the tokens in f32,
# may differ by a few of them for each token; measured: 7.5e-6.
EACH_TOKEN = 1e-5


def run(*args, code=0):
    done = subprocess.run([tool, "eval", *map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    expect(f"exit code of eval {' '.join(map(str, args))}", done.returncode == code, (done.returncode, done.stdout[-300:], done.stderr[-600:]))
    return done.stdout if code == 0 else done.stderr


def close(a, b, tokens):
    return abs(a - b) <= EACH_TOKEN * tokens


def evaluated(directory, file, *options):
    results = directory / "results.jsonl"
    out = json.loads(run(model, "--task", file, "--json", "--results", results, *options))
    return out["tasks"][0], [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]


def compare_items(name, items, expected):
    expect(f"{name}: items", len(items) == len(expected), (len(items), len(expected)))
    for i, (own, theirs) in enumerate(zip(items, expected)):
        if "log_probabilities" in theirs:
            pairs = list(zip(own["log_probabilities"], theirs["log_probabilities"], own["tokens"]))
            expect(f"{name} {i}: log-probabilities", len(own["log_probabilities"]) == len(theirs["log_probabilities"]) and all(close(*pair) for pair in pairs), pairs)
        if "log_probability" in theirs:
            expect(f"{name} {i}: log-probability", close(own["log_probability"], theirs["log_probability"], own["tokens"]), (own, theirs))
        if "generated" in theirs:
            expect(f"{name} {i}: text", own["generated"].strip() == theirs["generated"].strip(), (own["generated"], theirs["generated"]))
        for metric in ("acc", "acc_norm", "acc_bytes", "exact_match"):
            if metric in theirs:
                expect(f"{name} {i}: {metric}", own[metric] == theirs[metric], (own, theirs))
        if "f1" in theirs:
            expect(f"{name} {i}: f1", abs(own["f1"] - theirs["f1"]) < 1e-12, (own, theirs))


def equal_to_lm_eval(directory):
    for name, run_of in json.loads((tasks / "expected.json").read_text(encoding="utf-8")).items():
        options = [str(tasks / word) if word.endswith(".jsonl") else word for word in run_of["options"]]
        result, items = evaluated(directory, tasks / run_of["file"], *options)
        compare_items(name, items, run_of["items"])
        for metric, value in run_of["scores"].items():
            if metric.endswith("_stderr"):
                own = result["scores"][metric.removesuffix("_stderr")]["stderr"]
            else:
                own = result["scores"][metric]["value"]
            # a perplexity is e to the power of nats a byte or a word: tokens enough for 16 of them in a word
            bound = 16 * EACH_TOKEN * abs(value) if "perplexity" in metric else 1e-12 if metric != "bits_per_byte" else 2 * EACH_TOKEN
            expect(f"{name}: {metric}", abs(own - value) <= bound, (own, value))


def the_same_in_every_batch(directory):
    for file, *options in (["plain_choices.jsonl"], ["arc_ai2.jsonl", "--shots", 2], ["plain_targets.jsonl", "--max-tokens", 9], ["plain_texts.jsonl"]):
        results = [evaluated(directory, tasks / file, *options, "--batch", batch, "--threads", threads) for batch, threads in ((1, 1), (3, 2), (64, 2))]
        expect(f"{file} in passes of 1, 3 and 64", results[0] == results[1] == results[2], results[0][0])


def both_forms_of_arc(directory):
    hub, ai2 = (evaluated(directory, tasks / file) for file in ("arc.jsonl", "arc_ai2.jsonl"))
    expect("the forms of ARC", [i["log_probabilities"] for i in hub[1]] == [i["log_probabilities"] for i in ai2[1]])


def output(directory):
    text = run(model, "--task", tasks / "arc.jsonl", "--task", tasks / "mmlu.jsonl", "--limit", 4)
    for words in ("arc (ARC): 4 items", "mmlu (MMLU): 4 items", "acc_norm", "95 % between", "small_sums"):
        expect(f"{words} in the text", words in text, text)
    out = json.loads(run(model, "--task", tasks / "plain_choices.jsonl", "--json", "--shots", 1, "--seed", 7))
    (task,) = out["tasks"]
    expect("facts of the run", (out["shots"], out["seed"], task["form"], task["items"]) == (1, 7, "choices", 7), out)
    expect("truncated prompts are counted", task["truncated"] >= 1, task)
    score = task["scores"]["acc"]
    expect("an interval around the score", score["low"] <= score["value"] <= score["high"], score)


def errors(directory):
    def refused(what, words, line, *options, code=2):
        path = directory / "wrong.jsonl"
        path.write_text('{"prompt": "p", "choices": ["x", "y"], "answer": 0}\n' + line + "\n")
        err = run(model, "--task", path, *options, code=code)
        expect(what, all(word in err for word in words), err)

    refused("not JSON", ["wrong.jsonl:2"], "{")
    refused("an answer out of range", ["wrong.jsonl:2", "answer", "is 5"], '{"prompt": "p", "choices": ["x", "y"], "answer": 5}')
    refused("no choices", ["wrong.jsonl:2", "choices"], '{"prompt": "p", "choices": [], "answer": 0}')
    refused("another form", ["wrong.jsonl:2", "form text"], '{"text": "t"}')
    refused("a choice longer than the context", ["wrong.jsonl:2", "context of 160"], json.dumps({"prompt": "p", "choices": ["x " * 500, "y"], "answer": 0}))
    refused("too many shots", ["examples", "expected 5"], "", "--shots", 5)
    refused("a context that is too large", ["a context of 999 tokens"], "", "--context", 999)
    path = directory / "unknown.jsonl"
    path.write_text('{"sentence": "s", "gold": 1}\n')
    err = run(model, "--task", path, code=2)
    expect("unknown fields", all(word in err for word in ("unknown.jsonl:1", "sentence", "HellaSwag", "prompt, choices, answer")), err)
    expect("two tasks of one name", "named 'arc'" in run(model, "--task", tasks / "arc.jsonl", "--task", tasks / "arc.jsonl", code=2))
    expect("data and task", "--data" in run(model, "--task", tasks / "arc.jsonl", "--data", "x.txt", code=2))
    run(model, "--data", "x.txt", "--shots", 2, code=2)
    expect("no such file", "nowhere.jsonl" in run(model, "--task", directory / "nowhere.jsonl", code=2))


with tempfile.TemporaryDirectory() as name:
    equal_to_lm_eval(pathlib.Path(name))
    the_same_in_every_batch(pathlib.Path(name))
    both_forms_of_arc(pathlib.Path(name))
    output(pathlib.Path(name))
    errors(pathlib.Path(name))
finish()
