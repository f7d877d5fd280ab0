"""Holds what `weft bench --device metal-sim` counts to what kernels may move and compute.

  counters.py TOOL

Kernels that read and write each element once: at most 1.05 times the least bytes. Attention: matrix products for at least
90 % of the multiply-adds that causal attention needs, and device bytes that stay a small multiple of operands and results.
Matmul: all multiply-adds on matrices.
"""
import json
import subprocess
import sys

tool = sys.argv[1]
MOST = 1.05
ONE_PASS = {  # op: the variants held, or all; dtypes whose largest counted case has many rows
    "copy": None, "fill": {"value"}, "gradient_norm": None, "reduce": None, "softmax": None, "transpose_2d": None,
    "rms_norm": {"forward", "backward"}, "layer_norm": {"forward", "backward"}, "elementwise": {"swiglu", "swiglu_backward", "gelu_tanh", "multiply_add"},
}
ROWS_OF_16_BITS = {"rms_norm", "layer_norm"}  # in f32 the largest case that is counted has two rows, each as long as the weights
failures, held = [], 0


def count(*arguments):
    done = subprocess.run([tool, "bench", "--device", "metal-sim", "--json", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["kernels"]


def hold(kernel, what, value, right):
    global held
    held += 1
    if not right:
        failures.append(f"{kernel['kernel']} {kernel['case']}: {what} is {value:.3f}")


for op, variants in ONE_PASS.items():
    arguments = ["--dtype", "bf16"] if op in ROWS_OF_16_BITS else []
    for case in sorted(variants) if op == "elementwise" else [""]:
        for k in count("--op", op, *arguments, *(["--case", "." + case + "/"] if case else [])):
            if variants is None or k["variant"] in variants:
                hold(k, "bytes over the least", k["of_least"], k["of_least"] <= MOST)
for k in count("--op", "causal_attention"):
    hold(k, "share on matrices", k["matrix_share"], k["matrix_share"] >= 0.9)
    hold(k, "bytes over the least", k["of_least"], k["of_least"] <= 4)
for k in count("--op", "matmul", "--case", ".N"):
    hold(k, "share on matrices", k["matrix_share"], k["matrix_share"] >= 1)
for failure in failures:
    print(failure)
print(f"{held - len(failures)} passed, {len(failures)} failed")
sys.exit(bool(failures) or held < 40)
