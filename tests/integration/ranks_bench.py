"""ranks_bench.py TOOL SOURCE_DIR: weft bench --train under mpirun."""
import json
import subprocess

from checks import expect, finish
from mpi import ENVIRONMENT, need_mpi, tool


def run(ranks, *command):
    done = subprocess.run(["mpirun", "-n", str(ranks), *map(str, command)], env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


need_mpi()
settings = ["--train", "llama-tiny", "--dtype", "f32", "--batch", 4, "--sequence", 16, "--json"]
code, out, error = run(2, tool, "bench", *settings, "--pass-tokens", 16, "--shard", "gradients")
report = json.loads(out) if code == 0 else {"results": []}
expect("bench", code == 0 and report["ranks"] == 2 and report["shard"] == "gradients" and len(report["results"]) == 1, error)
for result in report["results"]:
    expect("its figures", result["tokens"] == 64 and result["tokens_per_second"] > 0 and len(result["seconds_waited"]) == 2, result)

code, out, error = run(2, tool, "bench", *settings)
said = [line for line in error.splitlines() if line.startswith("weft: ")]
expect("a step that cannot be shared", code == 2 and len(said) == 1 and "--pass-tokens 32" in said[0], (code, error))
code, out, error = run(2, tool, "bench", *settings, "--shard", "weights")
expect("an unknown sharding", code == 2 and error.count("weft: ") == 1 and "none, optimizer or gradients" in error, (code, error))
finish()
