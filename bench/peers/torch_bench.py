#!/usr/bin/env python3
"""The cases of `weft bench --table` by PyTorch, where it is installed: times to set beside ours, taken on one machine.

    python3 bench/peers/torch_bench.py [--threads 2] [--json]
"""
import argparse
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("torch_bench.py: PyTorch is not installed")

SIZES = [(128, 576, 576), (128, 1536, 576), (128, 576, 1536), (128, 49152, 576), (1024, 768, 768),
         (1024, 3072, 768), (1024, 768, 3072), (1024, 50304, 768), (2048, 2048, 2048)]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def median_ms(body, seconds=0.25, least=5):
    body(), body()
    times = []
    while sum(times) < seconds or len(times) < least:
        start = time.perf_counter()
        body()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def products(dtype):
    for m, n, k in SIZES:
        for layout in ("NN", "NT", "TN"):
            a = torch.randn(k, m).t() if layout == "TN" else torch.randn(m, k)
            b = torch.randn(n, k).t() if layout == "NT" else torch.randn(k, n)
            a, b = a.to(dtype), b.to(dtype)
            yield f"matmul.{layout}", f"{m}x{n}x{k}", lambda a=a, b=b: a @ b
    weights = [torch.randn(49152, 576).to(dtype) for _ in range(4)]  # in turns, so that none is in cache
    x, turn = torch.randn(1, 576).to(dtype), iter(range(10**9))
    yield "matmul.NT", "1x49152x576", lambda: x @ weights[next(turn) % 4].t()


def attention(dtype):
    for batch, heads, groups, steps, dim in ((8, 6, 6, 256, 64), (1, 9, 3, 1024, 64)):
        q = torch.randn(batch, heads, steps, dim, dtype=dtype, requires_grad=True)
        k, v = (torch.randn(batch, groups, steps, dim, dtype=dtype, requires_grad=True) for _ in range(2))
        dout = torch.randn(batch, heads, steps, dim, dtype=dtype)

        def both(q=q, k=k, v=v, dout=dout, repeat=heads // groups):
            wide = [t.repeat_interleave(repeat, 1) for t in (k, v)]
            F.scaled_dot_product_attention(q, *wide, is_causal=True).backward(dout)
            q.grad = k.grad = v.grad = None

        yield "causal_attention.forward+backward", f"{batch}x{steps}x{heads}x{groups}x{dim}", both
    for cached in (1024, 32768):
        q = torch.randn(1, 9, 1, 64, dtype=dtype)
        k, v = (torch.randn(1, 3, cached, 64, dtype=dtype).repeat_interleave(3, 1) for _ in range(2))
        yield "kv_attention.decode (in cache where it fits)", str(cached), lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v)


def with_gradient(f, x, dy):
    y = f(x)
    y.backward(dy)
    x.grad = None


def rows(dtype):
    for n, c in ((2048, 384), (32768, 4096)):
        x, w, bias = torch.randn(n, c, dtype=dtype), torch.ones(c, dtype=dtype), torch.zeros(c, dtype=dtype)
        leaf, dy = x.clone().requires_grad_(), torch.randn(n, c, dtype=dtype)
        functions = {"layer_norm": lambda t: F.layer_norm(t, (c,), w, bias), "softmax": lambda t: F.softmax(t, -1)}
        if hasattr(F, "rms_norm"):
            functions["rms_norm"] = lambda t: F.rms_norm(t, (c,), w, 1e-5)
        for name, f in functions.items():
            yield f"{name}.forward", f"{n}x{c}", lambda f=f, x=x: f(x)
            yield f"{name}.forward+backward", f"{n}x{c}", lambda f=f, leaf=leaf, dy=dy: with_gradient(f, leaf, dy)


def rest(dtype):
    logits, targets = torch.randn(1024, 50304, dtype=dtype, requires_grad=True), torch.randint(50304, (1024,))

    def loss():
        F.cross_entropy(logits, targets).backward()
        logits.grad = None

    yield "cross_entropy.gradient", "1024x50304", loss
    ranks = 1.0 / torch.arange(1, 50305, dtype=torch.float64)
    ids, dy = torch.multinomial(ranks, 65536, replacement=True), torch.randn(65536, 768, dtype=dtype)
    yield "embedding.backward", "50304x65536x768", lambda: torch.zeros(50304, 768, dtype=dtype).index_add_(0, ids, dy)
    x = torch.randn(8192, 8192).to(dtype)
    yield "transpose_2d.forward", "8192x8192", lambda: x.t().contiguous()
    parameter = torch.nn.Parameter(torch.randn(10747392, dtype=dtype))
    parameter.grad = torch.randn_like(parameter)
    yield "adamw.step", "10747392", torch.optim.AdamW([parameter], foreach=True).step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = []
    for name, dtype in DTYPES.items():
        for family in (products, attention, rows, rest):
            for op, case, body in family(dtype):
                with torch.set_grad_enabled("backward" in op or "gradient" in op):
                    ms = median_ms(body)
                results.append({"op": op, "case": case, "dtype": name, "ms": ms})
                if not options.json:
                    print(f"{op:46} {name:5} {case:20} {ms:10.3f} ms", flush=True)
    if options.json:
        print(json.dumps({"torch": torch.__version__, "threads": options.threads, "results": results}, indent=2))


if __name__ == "__main__":
    main()
