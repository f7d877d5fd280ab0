"""The Apple half compiles against declarations of Apple's published API, and does not once a selector, type or constant is wrong.

  apple_compiles.py CLANG SOURCE_ROOT
"""
import pathlib
import subprocess
import sys

clang, root = sys.argv[1], pathlib.Path(sys.argv[2])
source = root / "weft/backends/metal/apple/apple_gpu.mm"
MISTAKES = [  # what stands there, and what must not compile in its place
    ("memoryBarrierWithScope:", "memoryBarrierOfScope:"),
    ("setBytes:b.copied length:", "setBytes:b.copied size:"),
    ("MTLDispatchTypeConcurrent", "MTLDispatchTypeParallel"),
    ("options:MTLResourceStorageModeShared", "options:MTLDispatchTypeConcurrent"),
    ("constantValues:values", "constantValues:kernel"),
    ("(__bridge id<MTLBuffer>)b.buffer", "(id<MTLBuffer>)b.buffer"),
]


def compiles(text):
    command = [clang, "-x", "objective-c++", "-std=c++20", "-fobjc-arc", "-fobjc-runtime=gnustep-2.0", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
               "-I", str(root), "-isystem", str(root / "tests/metal/apple_declarations"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True)


text, failed = source.read_text(), 0
result = compiles(text)
if result.returncode:
    print(result.stderr)
    failed += 1
for right, wrong in MISTAKES:
    assert right in text, right
    if compiles(text.replace(right, wrong, 1)).returncode == 0:
        print(f"{wrong} in the place of {right} compiled")
        failed += 1
print(f"{1 + len(MISTAKES) - failed} passed, {failed} failed")
sys.exit(bool(failed))
