#!/usr/bin/env python3
"""Training steps and causal attention in PyTorch: what `weft bench --train` and its attention cases measure for Weft.

    python3 bench/peers/torch_gpu.py                                            # on a GPU: every model and attention shape below
    python3 bench/peers/torch_gpu.py --model gpt2-124m --batch 64 --sequence 1024
    python3 bench/peers/torch_gpu.py --attention 4x4096x32x32x128               # B x T x H x Hkv x D, as Weft names its cases
    python3 bench/peers/torch_gpu.py --device cpu --model tiny --attention 1x64x4x2x32 --steps 2    # a trial without a GPU

A step is forward, cross entropy, backward, gradient clipping and fused AdamW of a compiled model; weights are f32, autocast to bf16
(--weights bf16: weights, gradients and optimizer state in bf16). Attention is cuDNN's where it takes the shape, else PyTorch's choice;
each line says which. Times are medians, of CUDA events on a GPU.
"""
import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    sys.exit("torch_gpu.py: PyTorch is not installed")


@dataclass
class Shape:
    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    theta: float = 0  # of RoPE; 0: GPT-2
    eps: float = 1e-5
    qkv_bias: bool = False
    batch: int = 4
    sequence: int = 1024


# The published shapes, and the batch of docs/performance.md.
MODELS = {
    "gpt2-124m": Shape(50304, 768, 12, 12, 12, 3072, batch=64),  # 50257 words, padded as everyone does
    "smollm2-135m": Shape(49152, 576, 30, 9, 3, 1536, 1e5, batch=16, sequence=2048),
    "llama-3.2-1b": Shape(128256, 2048, 16, 32, 8, 8192, 5e5, batch=4, sequence=4096),
    "qwen2.5-0.5b": Shape(151936, 896, 24, 14, 2, 4864, 1e6, 1e-6, True, batch=32),
    "qwen2.5-1.5b": Shape(151936, 1536, 28, 12, 2, 8960, 1e6, 1e-6, True, batch=16),
    "tiny": Shape(257, 64, 2, 4, 2, 128, 1e4, batch=2, sequence=32),
}
ATTENTION = ["4x4096x32x32x128", "32x1024x12x12x64", "8x4096x16x16x64", "2x8192x32x8x128"]


def attend(q, k, v):
    """q [B, T, H, D], k and v [B, T, Hkv, D]."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1]).transpose(1, 2)


def backends_for(shape, device):
    """The backends to allow for [B, T, H, Hkv, D], and their name: cuDNN alone if it runs the shape forward and backward."""
    if device != "cuda":
        return None, "cpu"
    _, T, H, groups, D = shape
    try:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            q, k, v = (torch.randn(1, T, n, D, device=device, dtype=torch.bfloat16, requires_grad=True) for n in (H, groups, groups))
            attend(q, k, v).sum().backward()
        return [SDPBackend.CUDNN_ATTENTION], "cudnn"
    except RuntimeError:
        return [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH], "flash"


class Rope(nn.Module):
    def __init__(self, dim, positions, theta):
        super().__init__()
        angles = torch.outer(torch.arange(positions).float(), theta ** (-torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("cos", angles.cos()[None, :, None, :], persistent=False)
        self.register_buffer("sin", angles.sin()[None, :, None, :], persistent=False)

    def forward(self, x):
        a, b = x.float().chunk(2, -1)
        return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], -1).to(x.dtype)


class Block(nn.Module):
    """A block of GPT-2, or of Llama and Qwen2 where there is a RoPE."""

    def __init__(self, s):
        super().__init__()
        self.s, self.dim, gpt2 = s, s.width // s.heads, not s.theta
        norm = (lambda: nn.LayerNorm(s.width, s.eps)) if gpt2 else (lambda: nn.RMSNorm(s.width, s.eps))
        self.norm1, self.norm2 = norm(), norm()
        self.qkv = nn.Linear(s.width, (s.heads + 2 * s.kv_heads) * self.dim, bias=gpt2 or s.qkv_bias)
        self.out = nn.Linear(s.width, s.width, bias=gpt2)
        self.up = nn.Linear(s.width, s.hidden * (1 if gpt2 else 2), bias=gpt2)  # gated: gate and up side by side
        self.down = nn.Linear(s.hidden, s.width, bias=gpt2)

    def forward(self, x, rope):
        B, T, C = x.shape
        s = self.s
        qkv = self.qkv(self.norm1(x)).view(B, T, -1, self.dim)
        q, k, v = qkv.split([s.heads, s.kv_heads, s.kv_heads], 2)
        if rope is not None:
            q, k = rope(q), rope(k)
        x = x + self.out(attend(q, k, v).reshape(B, T, C))
        up = self.up(self.norm2(x))
        if rope is None:
            return x + self.down(F.gelu(up, approximate="tanh"))
        gate, up = up.chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    """Tied embeddings, as all of these models have."""

    def __init__(self, s):
        super().__init__()
        self.tokens = nn.Embedding(s.vocabulary, s.width)
        self.positions = None if s.theta else nn.Embedding(s.sequence, s.width)
        self.rope = Rope(s.width // s.heads, s.sequence, s.theta) if s.theta else None
        self.blocks = nn.ModuleList(Block(s) for _ in range(s.layers))
        self.norm = nn.RMSNorm(s.width, s.eps) if s.theta else nn.LayerNorm(s.width, s.eps)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, self.rope)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


def median_seconds(body, device, repeats, warmup):
    for _ in range(warmup):
        body()
    if device != "cuda":
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            body()
            times.append(time.perf_counter() - start)
        return statistics.median(times)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    marks[0].record()
    for mark in marks[1:]:
        body()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:])) * 1e-3


def train(name, options):
    s, device = MODELS[name], options.device
    s.batch, s.sequence = options.batch or s.batch, options.sequence or s.sequence
    torch.manual_seed(0)
    model = Model(s).to(device)
    narrow = options.weights == "bf16"
    if narrow:
        model = model.to(torch.bfloat16)
    run = torch.compile(model) if options.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, s.vocabulary, (s.batch, s.sequence + 1), device=device)
    backends, attention = backends_for((s.batch, s.sequence, s.heads, s.kv_heads, s.width // s.heads), device)

    def step():
        with torch.autocast(device, dtype=torch.bfloat16, enabled=not narrow):
            loss = run(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with sdpa_kernel(backends or [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        seconds = median_seconds(step, device, options.steps, 5)
    result = {"model": name, "parameters": sum(p.numel() for p in model.parameters()), "batch": s.batch, "sequence": s.sequence,
              "weights": options.weights, "compiled": options.compile, "attention": attention, "ms": round(seconds * 1e3, 3),
              "tokens_per_second": round(s.batch * s.sequence / seconds, 1)}
    if device == "cuda":
        result["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    return result


def attention(name, options):
    B, T, H, groups, D = shape = tuple(int(n) for n in name.split("x"))
    device, flops = options.device, 4 * B * H * T * T * D / 2  # causal; the backward has 2.5 times as many
    q, k, v = (torch.randn(B, T, n, D, device=device, dtype=torch.bfloat16, requires_grad=True) for n in (H, groups, groups))
    dout = torch.randn(B, T, H, D, device=device, dtype=torch.bfloat16)
    backends, chosen = backends_for(shape, device)
    with sdpa_kernel(backends or [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        with torch.no_grad():
            forward = median_seconds(lambda: attend(q, k, v), device, options.steps, 5)
        out = attend(q, k, v)
        backward = median_seconds(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True), device, options.steps, 5)
    return {"attention": name, "backend": chosen, "forward_ms": round(forward * 1e3, 4), "forward_tflops": round(flops / forward * 1e-12, 3),
            "backward_ms": round(backward * 1e3, 4), "backward_tflops": round(2.5 * flops / backward * 1e-12, 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--model", action="append", choices=sorted(MODELS), help="may be repeated; default: all but tiny")
    parser.add_argument("--attention", action="append", metavar="BxTxHxHkvxD", help="may be repeated; default: the four of docs/performance.md")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--sequence", type=int)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--weights", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--eager", dest="compile", action="store_false")
    options = parser.parse_args()
    everything = not options.model and not options.attention
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch_gpu.py: PyTorch finds no GPU here; --device cpu tries the script with --model tiny")
    torch.set_float32_matmul_precision("high")
    print(json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
                      "cudnn": torch.backends.cudnn.version()}), flush=True)
    for name in (ATTENTION if everything else options.attention or []):
        print(json.dumps(attention(name, options)), flush=True)
    for name in ([m for m in MODELS if m != "tiny"] if everything else options.model or []):
        print(json.dumps(train(name, options)), flush=True)
        torch.compiler.reset()
        if options.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
