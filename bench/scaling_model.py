#!/usr/bin/env python3
"""Predicts the time of a data-parallel training step on W GPUs from the measured step of one (docs/distributed.md, "Scaling").

    python3 bench/scaling_model.py                   # the table of docs/distributed.md
    python3 bench/scaling_model.py --network 100     # another network: Gb/s of one GPU
    python3 bench/scaling_model.py --terms           # the terms of each prediction, in milliseconds

N parameters, W ranks, G of them on a host. Every rank computes m micro-batches of the measured size (weak scaling), --shard optimizer.

    step     = m compute + add + exposed + gather + update / W + host
    compute  = measured step of one micro-batch - update; the backward pass is slower while bytes travel (--interference)
    update   = 30 N bytes at the rate of a copy (AdamW: gradient, m, v, master weight and bf16 weight, read and written)
    add      = 12 N (W-1)/W bytes at the rate of a copy: the tree over ranks, two f32 values read and one written per addition
    exposed  = move(last) + max(0, move(others) - backward), 4 bytes of a gradient
               `last`: the bucket of the input embedding, whose gradients are final at the end of the backward pass
    gather   = move(all), 2 bytes of a new bf16 weight; nothing hides it
    host     = 3 all-gathers between hosts' memories, each of W-1 messages: counts and losses, squares of the gradients, the end
    move     = the larger of NVLink's and the network's time, + parcels (launch + (W-1) message)
               A rank sends and receives (W-1)/W of all bytes, (W-G)/W of them by the network. Ranges are multiples of 65536 elements, so
               ranks have unequal ranges of a small bucket; a bucket travels in parcels, --in-flight at once.
"""
import argparse
from dataclasses import dataclass

COPY = 4.1e12  # bytes/s, adamw.step on the H200 (docs/performance.md)
CUT = 65536  # elements, weft/train/sharding.h


@dataclass
class Shape:
    name: str
    sizes: list  # elements of the parameters, in the optimizer's order: the input embedding first
    tokens: int  # a micro-batch
    step: float  # seconds of a step of one GPU with one micro-batch
    backward: float  # share of the computation that is the backward pass

    @property
    def parameters(self):
        return sum(self.sizes)


def gpt2(vocabulary, width, layers, context):
    block = [width, width, 3 * width * width, 3 * width, width * width, width, width, width, 4 * width * width, 4 * width, 4 * width * width, width]
    return [vocabulary * width, context * width] + layers * block + [width, width]


def llama(vocabulary, width, layers, kv_width, ffn, tied):
    block = [width, width * width, kv_width * width, kv_width * width, width * width, width, ffn * width, ffn * width, ffn * width]
    return [vocabulary * width] + layers * block + [width] + ([] if tied else [vocabulary * width])


def flops_per_token(matrices, layers, width, sequence):
    """Forward and backward: 6 for each weight of a matmul, and causal attention."""
    return 6 * matrices + 6 * layers * width * sequence


# Steps of one micro-batch in bf16 on one H200 (docs/performance.md, docs/lab/one-order.md).
GPT2 = Shape("GPT-2 124M", gpt2(50257, 768, 12, 1024), 65536, 0.1261, 2 / 3)
LLAMA_1B = Shape("Llama 1B", llama(128256, 2048, 16, 512, 8192, True), 16384, 0.2346, 2 / 3)
RATE = flops_per_token(LLAMA_1B.parameters, 16, 2048, 1024) * LLAMA_1B.tokens / LLAMA_1B.step
# Not measured: the FLOP/s of 1B. --recompute, for activations of 16384 tokens do not fit: a third more work, in the backward pass.
LLAMA_8B = Shape("Llama 8B", llama(128256, 4096, 32, 1024, 14336, False), 16384, 0, 3 / 4)
LLAMA_8B.step = 4 / 3 * flops_per_token(LLAMA_8B.parameters - 128256 * 4096, 32, 4096, 1024) * LLAMA_8B.tokens / RATE
SHAPES = (GPT2, LLAMA_1B, LLAMA_8B)


def buckets_of(shape, ranks, o):
    """Elements of each bucket, and of the largest range that one rank owns of it (weft/train/sharding.cpp)."""
    least = max(o.bucket, CUT * ranks if o.grow else 0)
    groups = [[]]
    for size in shape.sizes:
        if sum(groups[-1]) >= least:
            groups.append([])
        groups[-1].append(size)
    result = []
    for group in groups:
        elements, before, owned = sum(group), 0, {}
        for size in group:
            for at in range(0, size, CUT):
                count = min(CUT, size - at)
                rank = (2 * (before + at) + count) * ranks // (2 * elements)
                owned[rank] = owned.get(rank, 0) + count
            before += size
        result.append((elements, max(owned.values())))
    return result


def move(buckets, size, ranks, o):
    """Seconds to move the buckets' elements of `size` bytes: an all-to-all of ranges, or an all-gather of them."""
    even = sum(elements / ranks for elements, _ in buckets)  # elements of a rank's ranges
    uneven = sum(largest for _, largest in buckets) / o.in_flight
    bytes_ = size * max(even, uneven)
    local = min(ranks, o.host)
    inside = bytes_ * (local - 1) / (o.nvlink * 1e9 / 2 * o.efficiency)
    outside = bytes_ * (ranks - local) / (o.network * 1e9 / 8 * o.efficiency)
    parcel = max(o.parcel // ranks, CUT)  # elements of a rank
    parcels = sum(-(-largest // parcel) for _, largest in buckets)
    return max(inside, outside) + parcels * (o.launch + (ranks - 1) * o.message) * 1e-6


def terms(shape, ranks, micro_batches, o):
    update = 30 * shape.parameters / COPY
    compute = shape.step - update
    backward = shape.backward * compute
    buckets = buckets_of(shape, ranks, o)
    others = move(buckets[1:], 4, ranks, o)
    return {
        "compute": micro_batches * compute + o.interference * min(others, backward),
        "add": 12 * shape.parameters * (ranks - 1) / ranks / COPY,
        "exposed": move(buckets[:1], 4, ranks, o) + max(0, others - backward),
        "gather": move(buckets, 2, ranks, o),
        "update": update / ranks,
        "host": 3 * (ranks - 1) * o.host_message * 1e-6,
    }


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 512])
    p.add_argument("--micro-batches", type=int, nargs="+", default=[1, 4], help="of a rank and a step")
    p.add_argument("--host", type=int, default=8, help="GPUs on a host")
    p.add_argument("--nvlink", type=float, default=900, help="GB/s of a GPU, both directions together (H200: 900)")
    p.add_argument("--network", type=float, default=400, help="Gb/s of a GPU, in each direction")
    p.add_argument("--efficiency", type=float, default=0.8, help="share of those rates that large messages reach")
    p.add_argument("--launch", type=float, default=20, help="us to start the messages of a parcel")
    p.add_argument("--message", type=float, default=2, help="us of each of them")
    p.add_argument("--host-message", type=float, default=5, help="us of a small message between hosts' memories")
    p.add_argument("--interference", type=float, default=0.05, help="slowdown of the backward pass while bytes travel")
    p.add_argument("--bucket", type=int, default=1 << 20, help="least elements of a bucket")
    p.add_argument("--parcel", type=int, default=16 << 20, help="elements of a parcel over all ranks; at least 65536 for each")
    p.add_argument("--grow", action=argparse.BooleanOptionalAction, default=True, help="a bucket has at least 65536 elements for each rank")
    p.add_argument("--in-flight", type=int, default=4, help="parcels under way at once")
    p.add_argument("--terms", action="store_true", help="print the terms in milliseconds")
    return p.parse_args()


def main():
    o = options()
    header = ["model", "tokens of a GPU and step", "one GPU", *(f"{w} GPUs" for w in o.ranks)]
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for shape in SHAPES:
        update = 30 * shape.parameters / COPY
        for micro_batches in o.micro_batches:
            one = micro_batches * (shape.step - update) + update
            cells = [shape.name, f"{micro_batches} x {shape.tokens}", f"{1e3 * one:.0f} ms"]
            for ranks in o.ranks:
                t = terms(shape, ranks, micro_batches, o)
                step = sum(t.values())
                if o.terms:
                    cells.append(", ".join(f"{k} {1e3 * v:.1f}" for k, v in t.items()))
                else:
                    cells.append(f"{1e3 * step:.0f} ms, {one / step:.2f}")
            print("| " + " | ".join(cells) + " |")
    print("\nGB that a rank sends, and receives, in a step: " + "; ".join(
        f"{s.name} " + ", ".join(f"{6 * s.parameters * (w - 1) / w / 1e9:.2f}" for w in o.ranks) for s in SHAPES))


if __name__ == "__main__":
    main()
