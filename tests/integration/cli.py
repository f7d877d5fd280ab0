"""The tool's command line: help, exit codes, JSON fields."""
import json
import subprocess
import sys

tool = sys.argv[1]


def run(*args, code=0):
    done = subprocess.run([tool, *args], capture_output=True, text=True)
    assert done.returncode == code, f"weft {' '.join(args)}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done


assert run("--version").stdout.startswith("weft ")
for command in ([], ["devices"], ["inspect"], ["tokenize"], ["check"], ["bench"], ["support"]):
    assert "--help" in run(*command, "--help").stdout
    assert run("help", *command).stdout == run(*command, "--help").stdout
assert run("help", "tokenizer", "train").stdout == run("tokenizer", "train", "--help").stdout

devices = {d["name"]: d for d in json.loads(run("devices", "--json").stdout)}
assert devices["cpu"]["available"] and devices["cpu"]["dialect"] == "C"
assert set(devices["cpu"]["memory"]) == {"total", "free", "in_use", "high_water"}
assert "cpu" in run("devices").stdout
engines = devices["cpu"]["communication"]
assert list(engines) == ["mpi", "nccl"] and all(e["version"] if e["available"] else e["reason"] for e in engines.values()), engines
for name, engine in engines.items():
    line = next(line for line in run("devices").stdout.splitlines() if line.startswith(name.upper() + " "))
    assert line.endswith(engine["version"] if engine["available"] else "not available: " + engine["reason"]), line

report = json.loads(run("check", "--op", "rms_norm", "--dtype", "bf16", "--case", "3x257", "--json").stdout)
assert set(report) == {"device", "passed", "failed", "skipped", "cases"} and report["failed"] == 0
assert report["passed"] == sum(c["status"] == "passed" for c in report["cases"]) > 0
assert all({"name", "op", "dtype", "status", "error", "bound"} <= set(c) for c in report["cases"])
assert any(c["name"] == "rms_norm.backward/cpu/bf16/3x257" for c in report["cases"])
assert all("3x257" in c["name"] and c["dtype"] == "bf16" for c in report["cases"])

# The shards of --part cover all cases, each once.
names = lambda *part: [c["name"] for c in json.loads(run("check", "--op", "fill", "--json", *part).stdout)["cases"]]
parts = [names("--part", f"{i}/3") for i in (1, 2, 3)]
assert all(parts) and sorted(sum(parts, [])) == sorted(names())

bench = json.loads(run("bench", "--op", "rms_norm", "--case", "f32/2048x384", "--json").stdout)
assert {"device", "threads", "ceilings", "results"} <= set(bench)
for result in bench["results"]:
    assert {"op", "case", "dtype", "ms", "gbps", "gflops", "ceiling", "ratio"} <= set(result)
    assert result["ms"] > 0 and result["ratio"] > 0

model = json.loads(run("bench", "--model", "llama-tiny", "--dtype", "bf16", "--json").stdout)
assert {"device", "threads", "model", "parameters", "prompt_tokens", "new_tokens", "batch", "temperature", "top_p", "weights", "ceilings", "results"} == set(model)
assert [(r["test"], r["dtype"]) for r in model["results"]] == [("prefill", "bf16"), ("decode", "bf16")]
for result in model["results"]:
    assert {"ms", "tokens_per_second", "gbps", "gflops", "ceiling", "ratio", "wanted", "attempts", "disturbed"} <= set(result)
    assert result["tokens_per_second"] > 0 and result["ratio"] > 0

batch = json.loads(run("bench", "--model", "llama-tiny", "--dtype", "f32", "--batch", "3", "--context", "40", "--json").stdout)
assert batch["batch"] == 3 and batch["prompt_tokens"] == 40 and [r["tokens"] for r in batch["results"]] == [40, 3]

train = json.loads(run("bench", "--train", "llama-tiny", "--dtype", "f32", "--json").stdout)
assert {"device", "threads", "model", "parameters", "sequences", "sequence", "pass_tokens", "results"} == set(train) and train["model"] == "llama-tiny"
(step,) = train["results"]
assert {"ms", "tokens_per_second", "gflop", "gflops", "ceiling", "peak_gflops", "ratio", "attempts", "disturbed"} <= set(step)
assert step["tokens"] == train["sequences"] * train["sequence"] and step["ratio"] > 0
# Each token needs at least six FLOPs per weight of a matmul.
assert step["gflop"] * 1e9 >= 6 * step["tokens"] * (train["parameters"] - 512 * 64)
assert {"matmul", "adamw", "causal_attention_backward"} <= {op["op"] for op in step["breakdown"]["ops"]}
assert all(op["launches"] > 0 and op["ms"] > 0 for op in step["breakdown"]["ops"])

calls = json.loads(run("bench", "--overhead", "--json").stdout)["calls"]
assert calls and all(c["us"] > 0 and c["wanted"] > 0 for c in calls)

# Errors of a caller: one line that names the value, and the documented exit code.
for args, code, word in [
    ([], 2, "--help"),
    (["--frobnicate"], 2, "--frobnicate"),
    (["check", "--part", "3/2"], 2, "3/2"),
    (["check", "--part", "1/2x"], 2, "1/2x"),
    (["bench", "--train", "llama-tiny", "--batch", "0"], 2, "--batch is 0, expected 1 or more"),
    (["frobnicate"], 2, "frobnicate"),
    (["help", "frobnicate"], 2, "unknown command or option 'frobnicate'"),
    (["generate", "no_such_folder", "x", "--dtype", "fp8"], 2, "weft: --dtype: fp8 not in {f32,bf16}; see weft generate --help\n"),
    (["check", "--device", "tpu"], 2, "tpu"),
    (["check", "--device", "metal"], 3, "metal"),
    (["check", "--op", "no_such_op"], 2, "unknown op 'no_such_op'; expected one of adamw, "),
    (["check", "--op", "rms_norm", "--case", "no_such_case"], 2, "no case matches --op rms_norm --case no_such_case"),
    (["check", "--dtype", "f64"], 2, "f64"),
    (["check", "--threads", "-2"], 2, "-2 threads, expected 1 to"),
    (["check", "--threads", "010"], 2, "--threads: '010' is not an integer"),
    (["generate", "no_such_folder", "x", "--seed", "-1"], 2, "--seed: '-1' is not an integer from 0 to 2^64 - 1"),
    (["generate", "no_such_folder", "x", "--seed", "99999999999999999999"], 2, "--seed: '99999999999999999999' is not an integer"),
    (["generate", "no_such_folder", "x", "--max-tokens", "0x10"], 2, "--max-tokens: '0x10' is not an integer"),
    (["eval", "no_such_folder", "--data", "x", "--context", "99999999999999999999"], 2, "--context: '99999999999999999999' is not an integer"),
    (["bench", "--train", "llama-tiny", "--batch", "99999999999999999999"], 2, "--batch: '99999999999999999999' is not an integer"),
    (["generate", "no_such_folder", "x", "--temperature", "hot"], 2, "weft: --temperature: 'hot' is not a number; see weft generate --help\n"),
    (["train", "--lr", "1e"], 2, "weft: --learning-rate: '1e' is not a number; see weft train --help\n"),
    (["generate"], 2, "weft: model is required; see weft generate --help\n"),
    (["tokenizer", "train"], 2, "is required; see weft tokenizer train --help\n"),
    (["tokenize", "no_such_folder", "a", "b"], 2, "not expected: b; see weft tokenize --help\n"),
    (["generate", "no_such_folder", "--gpu"], 2, "weft: unknown option --gpu; use --device cuda\n"),
    (["tokenize", "no_such_folder", "--gpu"], 2, "weft: unknown option --gpu; see weft tokenize --help\n"),
    (["generate", "no_such_folder", "--fp16"], 2, "weft: unknown option --fp16; use --dtype\n"),
    (["generate", "no_such_folder", "--epochs", "3"], 2, "weft: unknown option --epochs; see weft generate --help\n"),
    (["train", "--plan", "--seed", "-1"], 2, "seed is -1, expected 0 or more"),
    (["train", "--plan", "--layers", "1000000"], 2, "layers is 1000000, expected 1 to 4096"),
    (["check", "--op", "rms_norm", "--golden", "/nowhere"], 2, "/nowhere"),
    (["bench", "--op", "no_such_op"], 2, "unknown op 'no_such_op'; expected one of adamw, "),
    (["bench", "--op", "matmul", "--dtype", "u8"], 2, "no case matches --op matmul --dtype u8"),
    (["bench", "--threads", "-2"], 2, "-2 threads, expected 1 to"),
    (["bench", "--train", "llama-tiny", "--pass-tokens", "0"], 2, "--pass-tokens is 0, expected 1 or more"),
    (["bench", "--pass-tokens", "8"], 2, "--train"),
    (["bench", "--device", "metal-simulated"], 2, "metal-simulated"),
    (["bench", "--model", "no_such_model"], 2, "'no_such_model' is not the name of a shape; expected one of gemma-2-2b, "),
    (["bench", "--model", "llama-tiny", "--dtype", "i32"], 2, "i32"),
    (["bench", "--train", "no_such_model"], 2, "no_such_model"),
    (["bench", "--train", "llama-tiny", "--dtype", "i32"], 2, "i32"),
]:
    done = run(*args, code=code)
    text = done.stdout + done.stderr
    assert word in text and (not args or text.count("\n") == 1 and text.startswith("weft: ")), f"weft {' '.join(args)} says: {text}"

# A full disk: the output could not be written, and the exit code says so.
with open("/dev/full", "w") as full:
    done = subprocess.run([tool, "devices"], stdout=full, stderr=subprocess.PIPE, text=True)
assert done.returncode == 2 and "No space left" in done.stderr, f"weft devices > /dev/full: exit {done.returncode}, {done.stderr}"
# Progress is shown on a terminal only.
assert run("check", "--op", "rms_norm").stderr == ""
print("1 passed, 0 failed")
