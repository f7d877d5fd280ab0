"""lint.py reports the errors in lint/wrong.metal, line by line, and the recursion in lint/recursive.metal.

  lint_finds.py CLANG SOURCE_ROOT
"""
import pathlib
import re
import sys

import lint

clang, root = sys.argv[1], pathlib.Path(sys.argv[2])
wrong = root / "tests/metal/lint/wrong.metal"
expected = {n: line.split("// wrong: ")[1] for n, line in enumerate(wrong.read_text().split("\n"), 1) if "// wrong: " in line}
found = {}
for message in lint.lint(clang, root, wrong):
    found.setdefault(int(re.match(r"[^:]*:(\d+):", message)[1]), []).append(message)
failures = [f"{wrong.name}:{n}: not reported: {text}" for n, text in expected.items() if not any(text in message for message in found.get(n, []))]
failures += [f"reported, but nothing is wrong there: {message}" for n, messages in found.items() if n not in expected for message in messages]
if not any("calls itself" in message for message in lint.lint(clang, root, root / "tests/metal/lint/recursive.metal")):
    failures.append("recursive.metal: the recursion was not found")
for failure in failures:
    print(failure)
print(f"{len(expected) + 1} expected, {len(failures)} failed")
sys.exit(bool(failures))
