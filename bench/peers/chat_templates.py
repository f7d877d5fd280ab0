#!/usr/bin/env python3
"""Renders every template of a folder over many conversations by transformers' own function and by Weft: texts, failures and the messages
of raise_exception must be equal.

    bench/peers/chat_templates.py FOLDER_OF_JINJA_FILES build/release/tests/chat_render [--report FILE]

Needs transformers and jinja2. llama.cpp keeps such a folder: models/templates.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "golden" / "lib"))
import chat_reference  # noqa: E402
from chat_conversations import conversations  # noqa: E402


def compare(path, program):
    template = path.read_text(encoding="utf-8")
    jobs = [{"template": template, "conversation": conversation, "special_tokens": chat_reference.TOKENS, "add_generation_prompt": prompt,
             "time": chat_reference.NOW, "name": name}
            for name, conversation in conversations() for prompt in (False, True)]
    theirs = [chat_reference.by_transformers(template, job["conversation"], job["add_generation_prompt"]) for job in jobs]
    ours = chat_reference.by_weft(program, jobs)
    wrong = [(job["name"], job["add_generation_prompt"], found) for job, a, b in zip(jobs, theirs, ours) if (found := chat_reference.difference(a, b))]
    return {"name": path.name, "jobs": len(jobs), "texts": sum("text" in t for t in theirs),
            "raised": sum(t.get("raised") is not None for t in theirs), "wrong": wrong}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("program")
    parser.add_argument("--report", type=pathlib.Path)
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.rglob("*.jinja"))
    lines, wrong, jobs = [], 0, 0
    for path in paths:
        result = compare(path, arguments.program)
        failed = result["jobs"] - result["texts"] - result["raised"]
        verdict = "equal" if not result["wrong"] else f"{len(result['wrong'])} DIFFERENT"
        lines.append(f"{result['name']}: {verdict} ({result['texts']} texts, {result['raised']} refused by raise_exception, {failed} failed otherwise)")
        print(lines[-1], flush=True)
        for name, prompt, found in result["wrong"][:4]:
            print(f"    {name}, add_generation_prompt={prompt}: {found}")
        wrong += len(result["wrong"])
        jobs += result["jobs"]
    lines.append(f"{len(paths)} templates, {jobs} renderings, {wrong} different")
    print(lines[-1])
    if arguments.report:
        arguments.report.write_text("\n".join(lines) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
