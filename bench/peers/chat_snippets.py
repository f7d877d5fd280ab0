#!/usr/bin/env python3
"""Renders small templates, by hand and random, by jinja2 as transformers sets it up and by Weft: texts and failures must be equal.

    bench/peers/chat_snippets.py build/release/tests/chat_render [--count 20000] [--seed 1]

Needs transformers and jinja2. Not compared: integers beyond 64 bits, which are an error here, and what Python prints for generators, methods
and functions (it has addresses in it).
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "golden" / "lib"))
import chat_reference  # noqa: E402
import chat_snippets  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    snippets = chat_snippets.by_hand() + chat_snippets.random_snippets(arguments.seed, arguments.count)
    snippets += chat_snippets.random_programs(arguments.seed, arguments.count // 2)
    jobs = [{"template": snippet, "variables": chat_snippets.VARIABLES, "time": chat_reference.NOW} for snippet in snippets]
    ours = chat_reference.by_weft(arguments.program, jobs)
    wrong = texts = skipped = 0
    for job, mine in zip(jobs, ours):
        theirs = chat_reference.by_jinja(job["template"], job["variables"])
        if chat_reference.incomparable(theirs, mine):
            skipped += 1
            continue
        texts += "text" in theirs
        if found := chat_reference.difference(theirs, mine):
            wrong += 1
            if wrong <= 40:
                print(f"{job['template']!r}\n    {found}")
    print(f"{len(jobs)} snippets: {texts} texts, {len(jobs) - texts - skipped} failures, {skipped} not compared, {wrong} different")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
