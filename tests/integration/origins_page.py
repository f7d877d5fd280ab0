"""docs/origins.md names every function of the seeds, and every function and file of ours that it names exists."""
import pathlib
import re
import sys

from checks import expect, finish

SEEDS = """len is_empty to_vec dialect alloc upload upload_u32 download sync elementwise matmul softmax softmax_backward rms_norm
rms_norm_backward embedding embedding_backward reduce_sum causal_attention causal_attention_backward kv_attention transpose_2d
cross_entropy_forward_backward copy_buffer bias_add add_assign zero_buffer adamw_step cross_entropy_fwd_bwd
rms_norm_compute_rms_inv_f32 rms_norm_backward_dx_f32 rms_norm_backward_dw_f32 flash_attn_train_bwd_compute_d_bf16""".split()

source = pathlib.Path(sys.argv[2])
page = (source / "docs/origins.md").read_text()
rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
seen = set()
for row in rows:
    expect("a row has four columns", len(row) == 4, row)
    seeds, functions, files, _ = (re.findall(r"`([^`]+)`", column) for column in row)
    seen.update(seeds)
    texts = ""
    for name in files:
        expect(f"{name} exists", (source / name).is_file(), row)
        texts += (source / name).read_text() if (source / name).is_file() else ""
    expect("a row names functions and files", functions and files, row)
    for name in functions:
        plain = name.removesuffix("()").split("::")[-1]
        expect(f"{name} is in the files of its row", re.search(rf"\b{plain}\(", texts), row)
for name in SEEDS:
    expect(f"{name} has a row", name in seen)
for name in re.findall(r"`((?:tests|weft|docs)/[^`]+)`", page):
    expect(f"{name} exists", (source / name).exists())
finish()
