"""Checks Metal kernels for errors that Apple's compiler reports and the simulator, which compiles for the host, does not.

  lint.py CLANG SOURCE_ROOT FILE_OR_FOLDER...

Each kernel file is preprocessed, a few spellings that are not C++ are rewritten token by token, and clang checks the rest with device,
constant and threadgroup as separate address spaces (lint/metal_stdlib), as C++14, the base of Metal. Also: no double, no lambda, no
recursion, and no other C++ feature that Metal lacks; every pointer or reference parameter names its address space, and nothing is named
like one; a kernel's grid position parameters are all scalars, or all vectors of one size; variables outside of functions are constant,
threadgroup variables belong to a kernel and have no initialiser; every index of a buffer or function constant is unique; a kernel in a
namespace has a host name. A second pass without address spaces has bfloat as a class without implicit conversions from numbers.
"""
import pathlib
import re
import subprocess
import sys

from lint_rules import MARK, RULES, VECTORS, declares_variable

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|\[\[|\]\]|::|->|&&|<<=?|>>=?|[-+*/%&|^=!<>]=|\+\+|--|\|\||\.\.\.|\S|\n|[ \t]+')
NO_TYPES = {",", ")", "=", "[", "]", "+", "-", "*=", "+=", "<", "<=", ">", ">=", "==", "?", ":", "."}
ABSENT = {"double", "virtual", "try", "catch", "throw", "new", "delete", "goto", "dynamic_cast", "typeid", "thread_local", "asm", "wchar_t", "std", "noexcept"}
STRICT = ["c++17-extensions", "c++20-extensions", "vla-extension", "return-type", "c++11-narrowing", "uninitialized", "sometimes-uninitialized", "switch"]


def run(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True)


def preprocess(clang, root, file):
    """The file with its includes, line markers kept, and address spaces as __weft_device and so on."""
    defines = [f"-D{space}={mark}" for space, mark in MARK.items()]
    # The declarations are omitted here: the second pass adds them with -include.
    command = [clang, "-E", "-x", "c++", "-std=c++14", "-I", str(root), "-isystem", str(HERE / "lint" / "empty"), "-D__METAL_VERSION__=310", *defines, str(file)]
    result = run(command)
    if result.returncode:
        raise SystemExit(result.stderr)
    return result.stdout


def tokens_of(text):
    """(token, line number in the preprocessed text) without blanks; line markers are one token each."""
    tokens = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            tokens.append((line, number))
            continue
        tokens += [(token, number) for token in TOKEN.findall(line) if not token.isspace()]
    return tokens


class Lines:
    """The origin of a line of the preprocessed text."""

    def __init__(self, text):
        self.origin, file, line = {}, "", 0
        for number, content in enumerate(text.split("\n"), 1):
            marker = re.match(r'# (\d+) "([^"]*)"', content)
            if marker:
                line, file = int(marker[1]) - 1, marker[2]
            else:
                line += 1
            self.origin[number] = (file, line)


def rewrite(tokens, lines):
    """The tokens as C++, and the errors found in them."""
    out, wrong = [], []

    def say(number, message):
        file, line = lines.origin[number]
        wrong.append(f"{file}:{line}: {message}")

    i = 0
    while i < len(tokens):
        token, number = tokens[i]
        ahead = tokens[i + 1][0] if i + 1 < len(tokens) else ""
        before = next((t for t, _ in reversed(out[-3:]) if not t.startswith("#")), "")
        if token == "template" and ahead == "[[":  # [[host_name("...")]] of an instantiation
            out.append((token, number))
            while tokens[i][0] != "]]":
                i += 1
            i += 1
            continue
        if token == "[[" and ahead == "function_constant":  # gets its value when a pipeline is made
            while tokens[i][0] != "]]":
                i += 1
            out.append(("= {}", number))
            i += 1
            continue
        if token in MARK.values() and ahead in NO_TYPES:  # the simulator, which drops these words, would not notice
            say(number, token.removeprefix("__weft_") + " is an address space, not a name")
        if token in ABSENT:
            say(number, "Metal has no " + token)
        if token == "long" and ahead in ("long", "double"):
            say(number, "Metal has no long " + ahead)
        if token == "[" and before in ("=", "(", ",", "return") and ahead in ("&", "=", "]"):
            say(number, "Metal has no lambdas")
        if VECTORS.match(token) and ahead == "(":
            token = "make_" + token
        if token == MARK["threadgroup"] and before in (";", "{", "}") and declares_variable(tokens, i):
            out.append(("static", number))
        out.append((token, number))
        i += 1
    plain = [(t, n) for t, n in tokens if not t.startswith("#")]
    for rule in RULES:
        rule(plain, say)
    return out, wrong


def recursive_function(ir):
    """A function of this LLVM assembly that calls itself, directly or indirectly, or None."""
    calls, here = {}, None
    for line in ir.split("\n"):
        defined = re.match(r'define .*?@("?[\w.$]+"?)\(', line)
        if defined:
            here = defined[1]
            calls[here] = set()
        elif here:
            calls[here] |= set(re.findall(r'(?:call|invoke) .*?@("?[\w.$]+"?)\(', line))
    state = {}

    def reaches_itself(name):  # or one that `name` reaches
        state[name] = "open"
        for callee in calls[name] & calls.keys():
            if state.get(callee) == "open":
                return callee
            found = callee not in state and reaches_itself(callee)
            if found:
                return found
        state[name] = "done"
        return None

    return next((found for found in (name not in state and reaches_itself(name) for name in calls) if found), None)


def text_of(tokens):
    text, line = [], 1
    for token, number in tokens:
        while line < number:
            text.append("\n")
            line += 1
        text.append(token + ("" if token.startswith("#") else " "))
    return "".join(text) + "\n"


def place_of(message):
    """"file:line" at the beginning of a message."""
    return ":".join(message.split(":")[:2])


COPIES = re.compile(r"no matching constructor for initialization of|no viable overloaded '='")


def errors_of(stderr, copies=False):
    """clang's errors, except those about copies of structs between address spaces, which Metal allows (unless `copies`)."""
    errors = []
    for block in re.split(r"\n(?=[^\n]*: (?:fatal )?error: )", "\n" + stderr):
        lines = block.strip().split("\n")
        first = next((line for line in lines if re.search(r": (?:fatal )?error: ", line)), None)
        notes = [line for line in lines if ": note: candidate" in line]
        if first and not (not copies and COPIES.search(first) and notes and all("the implicit" in note for note in notes)):
            errors.append(first)
    return errors


def lint(clang, root, file):
    preprocessed = preprocess(clang, root, file)
    tokens, wrong = rewrite(tokens_of(preprocessed), Lines(preprocessed))
    text, declarations = text_of(tokens), HERE / "lint"
    command = [clang, "-x", "c++", "-std=c++14", "-ferror-limit=0", "-Wno-everything", *(f"-Werror={name}" for name in STRICT), "-Xclang", "-cl-single-precision-constant", "-isystem", str(declarations),
               "-include", str(declarations / "metal_stdlib"), "-include", str(declarations / "metal_simdgroup_matrix")]
    spaces = [f"-D{mark}={space}" for space, mark in MARK.items()]
    wrong += errors_of(run([*command, *spaces, "-Werror=implicit-float-conversion", "-fsyntax-only", "-"], text).stderr)
    no_spaces = ["-DWEFT_NO_SPACES", *(f"-D{mark}=" for mark in MARK.values())]
    known = {place_of(line) for line in wrong}
    strict = run([*command, *no_spaces, "-DWEFT_STRICT_BFLOAT", "-fsyntax-only", "-"], text)
    wrong += [line for line in errors_of(strict.stderr, copies=True) if place_of(line) not in known]
    if wrong:
        return wrong
    # Again without address spaces, where structs can be copied anywhere, to find the call graph.
    assembly = run([*command, *no_spaces, "-O0", "-S", "-emit-llvm", "-o", "-", "-"], text)
    if assembly.returncode:
        return [f"{file}: cannot be searched for recursion:", *errors_of(assembly.stderr)]
    name = recursive_function(assembly.stdout)
    return [f"{file}: {name} calls itself, which Metal does not allow"] if name else []


def main():
    clang, root = sys.argv[1], pathlib.Path(sys.argv[2])
    files = [file for path in map(pathlib.Path, sys.argv[3:]) for file in (sorted(path.glob("*.metal")) if path.is_dir() else [path])]
    failed = 0
    for file in files:
        wrong = lint(clang, root, file)
        failed += bool(wrong)
        for line in wrong:
            print(line)
    print(f"{len(files) - failed} passed, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
