"""The Objective-C++ part compiles against declarations of Apple's published API, and fails to compile if a selector, type or constant
is wrong: every one of them is misspelled in turn, and a few are replaced by others.

  apple_compiles.py CLANG SOURCE_ROOT
"""
import pathlib
import re
import subprocess
import sys

clang, root = sys.argv[1], pathlib.Path(sys.argv[2])
source = root / "weft/backends/metal/apple/apple_gpu.mm"
MISTAKES = [  # the original, and a replacement that must not compile
    ("memoryBarrierWithScope:", "memoryBarrierOfScope:"),
    ("setBytes:b.copied length:", "setBytes:b.copied size:"),
    ("MTLDispatchTypeConcurrent", "MTLDispatchTypeParallel"),
    ("options:MTLResourceStorageModeShared", "options:MTLDispatchTypeConcurrent"),
    ("constantValues:values", "constantValues:kernel"),
    ("(__bridge id<MTLBuffer>)b.buffer", "(id<MTLBuffer>)b.buffer"),
]


def compiles(text):
    command = [clang, "-x", "objective-c++", "-std=c++20", "-fobjc-arc", "-fobjc-runtime=gnustep-2.0", "-fsyntax-only", "-ferror-limit=0", "-Wall", "-Wextra", "-Werror",
               "-I", str(root), "-isystem", str(root / "tests/metal/apple_declarations"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def names_in(text):
    """The framework's names, parts of selectors and properties, each at its first occurrence."""
    code = re.sub(r"//.*|^#.*|\"[^\"\n]*\"", lambda match: " " * len(match[0]), text, flags=re.MULTILINE)
    names = {}
    for pattern in (r"\b(?:MTL|NS)\w+", r"\b[a-z]\w*(?=:(?!:))", r"(?<=[\w)\]]\.)[a-z]\w+\b(?!\()", r"(?<=\w )[a-z]\w+(?=\])"):
        for match in re.finditer(pattern, code):
            names.setdefault(match[0], match.end())
    return {name: end for name, end in names.items() if name not in ("default", "public", "private")}


def misspelled(text, ends):
    for end in sorted(ends, reverse=True):
        text = text[:end] + "Misspelled" + text[end:]
    return text


def not_noticed(text):
    """Names whose misspelling goes unnoticed. Many are tested at once, since each has its own error; those without one are tested alone."""
    names = names_in(text)
    noticed = "".join(compiles(misspelled(text, list(names.values())[i::4])).stderr for i in range(4))
    alone = [name for name in names if name + "Misspelled" not in noticed]
    print(f"{len(names)} names, {len(alone)} of them tried alone")
    return [name for name in alone if compiles(misspelled(text, [names[name]])).returncode == 0], len(names)


text, failed = source.read_text(), 0
result = compiles(text)
if result.returncode:
    print(result.stderr)
    failed += 1
compiled, count = not_noticed(text)
for name in compiled:
    print(f"{name} can be misspelled")
for right, wrong in MISTAKES:
    assert right in text, right
    if compiles(text.replace(right, wrong, 1)).returncode == 0:
        print(f"{wrong} in the place of {right} compiled")
        failed += 1
failed += len(compiled)
print(f"{1 + count + len(MISTAKES) - failed} passed, {failed} failed")
sys.exit(bool(failed))
