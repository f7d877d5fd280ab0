# needs: torch==2.15.0 safetensors==0.8.0 numpy
"""Golden data of attention over documents, with a window and with a soft cap, made by PyTorch in float64.

    scripts/make-golden attention

Makes tests/golden/ops/attention_options.safetensors. The values are those of a softmax over masked scores, differentiated by autograd. o
must agree with flex_attention, whose CPU version has no backward, and without a soft cap all must agree with scaled_dot_product_attention.
q, k, v and do are f32, so that both sides read the same numbers; o, dq, dk and dv are rounded to f32 at the end.
"""
import json
import pathlib

import torch
import torch._dynamo
from safetensors.torch import save_file
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

FILE = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "ops" / "attention_options.safetensors"

CASES = [
    {"seq": 40, "heads": 4, "kv_heads": 2, "head_dim": 8, "documents": [0, 1, 17, 17, 40]},
    {"seq": 100, "heads": 2, "kv_heads": 1, "head_dim": 16, "documents": [0, 65, 70, 99, 100]},
    {"seq": 70, "heads": 2, "kv_heads": 2, "head_dim": 16, "window": 1},
    {"seq": 140, "heads": 2, "kv_heads": 1, "head_dim": 8, "window": 33},
    {"batch": 2, "seq": 66, "heads": 2, "kv_heads": 1, "head_dim": 8, "soft_cap": 1.5},
    {"seq": 90, "heads": 4, "kv_heads": 1, "head_dim": 8, "soft_cap": 20.0},
    {"seq": 130, "heads": 2, "kv_heads": 1, "head_dim": 16, "window": 20, "soft_cap": 3.0, "documents": [0, 66, 67, 130, 130]},
]


def seen(case):
    """[T, T]: which keys each query attends to."""
    T, window = case["seq"], case["window"]
    document = torch.zeros(T, dtype=torch.long)
    for first in case["documents"][1:-1]:
        document[first:] += 1
    i, j = torch.arange(T)[:, None], torch.arange(T)[None, :]
    mask = (j <= i) & (document[:, None] == document[None, :])
    return mask & (i - j < window) if window else mask


def outputs(case, tensors):
    """o, dq, dk, dv."""
    mask, cap = seen(case), case["soft_cap"]
    group = case["heads"] // case["kv_heads"]

    def by_softmax(q, k, v):
        s = q @ k.transpose(2, 3) / case["head_dim"] ** 0.5
        s = cap * torch.tanh(s / cap) if cap else s
        return torch.softmax(s.masked_fill(~mask, -float("inf")), -1) @ v

    def by_sdpa(q, k, v):
        return scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def by_flex(q, k, v):
        torch._dynamo.reset()  # a score function for these shapes alone
        limit = torch.tensor(cap or 1e30, dtype=torch.float64)  # a tensor: dynamo refuses a float that changes

        def score(s, b, h, i, j):
            return torch.where(mask[i, j], limit * torch.tanh(s / limit) if cap else s, -float("inf"))

        return flex_attention(q, k, v, score_mod=score)

    def with_gradients(attend):
        q, k, v = (tensors[name].double().transpose(1, 2).clone().requires_grad_() for name in "qkv")
        o = attend(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))
        o.backward(tensors["do"].double().transpose(1, 2))
        return [x.transpose(1, 2) for x in (o.detach(), q.grad, k.grad, v.grad)]

    result = with_gradients(by_softmax)
    q, k, v = (tensors[name].double().transpose(1, 2) for name in "qkv")
    flex = by_flex(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)).transpose(1, 2)
    torch.testing.assert_close(result[0], flex, rtol=1e-10, atol=1e-12)
    if not cap:
        for a, b in zip(result, with_gradients(by_sdpa)):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    return result


def main():
    generator, tensors, cases = torch.Generator().manual_seed(1), {}, []
    for index, given in enumerate(CASES):
        case = {"batch": 1, "window": 0, "soft_cap": 0.0, "documents": [], **given}
        case_of = {**case, "documents": case["documents"] or [0, case["seq"]]}
        shape = (case["batch"], case["seq"], case["heads"], case["head_dim"])
        key_shape = (*shape[:2], case["kv_heads"], case["head_dim"])
        own = {name: torch.randn(key_shape if name in "kv" else shape, generator=generator) for name in ("q", "k", "v", "do")}
        for name, value in zip(("o", "dq", "dk", "dv"), outputs(case_of, own)):
            own[name] = value.float()
        tensors.update({f"{index}.{name}": value.contiguous() for name, value in own.items()})
        cases.append(case)
    save_file(tensors, FILE, {"cases": json.dumps(cases)})
    print(f"{FILE.name}: {len(cases)} cases, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
