#!/usr/bin/env python3
"""A table of docs/performance.md from the JSON of `weft bench --table`, f32 and bf16 side by side.

    weft bench --table --json > cpu.json && python3 bench/table.py cpu.json
"""
import json
import sys


def cell(result):
    rate = f"{result['gflops'] / 1e3:.0f} TFLOP/s" if result["gflops"] > 1e5 else (
        f"{result['gflops']:.0f} GFLOP/s" if result["op"].startswith(("matmul", "causal")) else f"{result['gbps']:.0f} GB/s")
    wanted = f", wanted {result['wanted']:.2f}" if result.get("wanted") else ""
    return f"{rate}, {result['ratio']:.2f}{wanted}"


def main():
    report = json.load(open(sys.argv[1]))
    rows = {}
    for result in report["results"]:
        rows.setdefault((result["op"], result["case"]), {})[result["dtype"]] = result
    print("| op | case | f32 | bf16 | of |\n|---|---|---|---|---|")
    for (op, case), by_dtype in rows.items():
        cells = [cell(by_dtype[d]) if d in by_dtype else "" for d in ("f32", "bf16")]
        ceilings = sorted({r["ceiling"].removesuffix("_gbps").removesuffix("_gflops").removesuffix("_geps") for r in by_dtype.values()})
        print(f"| `{op}` | {case} | {cells[0]} | {cells[1]} | {', '.join(ceilings)} |")


if __name__ == "__main__":
    main()
