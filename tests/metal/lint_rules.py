"""Rules of lint.py that need only the tokens of a kernel file. A rule gets (token, line) pairs without line markers, and reports errors
by line.
"""
import re

VECTORS = re.compile(r"^(?:char|uchar|short|ushort|int|uint|long|ulong|half|bfloat|float)[234]$")
SPACES = {"device", "constant", "threadgroup", "thread"}
MARK = {space: f"__weft_{space}" for space in SPACES}  # survives the first preprocessing, so that address spaces stay visible


def declares_variable(tokens, i):
    for token, _ in tokens[i + 1 :]:
        if token in ("*", "&", "("):
            return False
        if token in (";", "[", "=", ","):
            return True
    return False


def parameter_lists(plain):
    """Positions of the brackets around the parameters of every function declared outside of functions."""
    nest, i, found = [], 0, []
    while i < len(plain):
        token = plain[i][0]
        if token == "{":
            nest.append(opens_scope(plain, i))
        elif token == "}" and nest:
            nest.pop()
        elif token == "(" and all(nest) and i and re.match(r"[A-Za-z_]\w*$|>$", plain[i - 1][0]) and plain[i - 1][0] not in NO_FUNCTIONS and plain[i + 1][0] not in ("&", "*"):
            end = closing(plain, i)
            found.append((i, end))
            i = end
        i += 1
    return found


NO_FUNCTIONS = {"static_assert", "sizeof", "alignas", "decltype", "if", "for", "while", "switch", "return"}


def opens_scope(plain, i):
    for token, _ in reversed(plain[max(0, i - 40) : i]):
        if token in (";", "}", "{", ")", "="):
            return False
        if token in ("namespace", "struct", "union", "class", "enum"):
            return True
    return False


def closing(plain, start):
    depth = 0
    for i in range(start, len(plain)):
        depth += plain[i][0] in ("(", "{", "[", "[[")
        depth -= plain[i][0] in (")", "}", "]", "]]")
        if depth == 0:
            return i
    return len(plain) - 1


def split(plain, start, end):
    """The token lists between commas from one bracket to its match."""
    parts, depth = [[]], 0
    for token, _ in plain[start + 1 : end]:
        depth += token in ("(", "{", "[", "[[", "<")
        depth -= 2 if token == ">>" else token in (")", "}", "]", "]]", ">")
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


PLACES = {"thread_position_in_grid", "threads_per_grid", "thread_position_in_threadgroup", "threads_per_threadgroup", "threadgroup_position_in_grid",
          "threadgroups_per_grid", "dispatch_threads_per_threadgroup"}


def check_parameters(plain, say):
    """Parameters name the address space of their pointer or reference; grid positions have one number of axes."""
    for start, end in parameter_lists(plain):
        parameters = split(plain, start, end)
        axes = {words[0][-1] if VECTORS.match(words[0]) else "1" for words in parameters if PLACES & set(words)}
        if len(axes) > 1:
            say(plain[end][1], "places in the grid of " + " and ".join(sorted(axes)) + " axes in one kernel")
        for words in parameters:
            if ("*" in words or "&" in words) and not any(mark in words for mark in MARK.values()):
                say(plain[start][1], "a pointer or reference without an address space: " + " ".join(words))
        for attribute in ("buffer", "threadgroup"):
            indices = [words[k + 2] for words in parameters for k, word in enumerate(words[:-2]) if word.removeprefix("__weft_") == attribute and words[k + 1] == "("]
            for index in sorted({i for i in indices if indices.count(i) > 1}):
                say(plain[end][1], f"two parameters at {attribute}({index})")
            for index in indices:
                if index.isdigit() and int(index) > 30:
                    say(plain[end][1], f"{attribute}({index}): there are 31")


def check_indices(plain, say):
    """The index of a function constant is unique."""
    seen = {}
    for i, (token, number) in enumerate(plain):
        if token == "function_constant" and plain[i - 1][0] == "[[" and plain[i + 4][0] == "]]" and plain[i + 5][0] == ";":
            index, name = plain[i + 2][0], plain[i - 2][0]
            if index in seen:
                say(number, f"function constants {seen[index]} and {name} both have index {index}")
            seen[index] = name


def scopes(plain):
    """For each token: the braces around it, outermost first, each "scope" (of a namespace or type), "kernel" or "function"."""
    nest, result = [], []
    for i, (token, _) in enumerate(plain):
        if token == "}" and nest:
            nest.pop()
        result.append(tuple(nest))
        if token == "{":
            nest.append("scope" if opens_scope(plain, i) else "kernel" if heads_kernel(plain, i) else "function")
    return result


def heads_kernel(plain, i):
    for token, _ in reversed(plain[:i]):
        if token in (";", "}", "{"):
            return False
        if token == "kernel":
            return True
    return False


def check_variables(plain, say):
    """Allowed places and address spaces of variables."""
    where = scopes(plain)
    for i, (token, number) in enumerate(plain):
        begins = i == 0 or plain[i - 1][0] in (";", "{", "}") or plain[i - 1][0] == "static"
        if token == MARK["threadgroup"] and begins and declares_variable(plain, i):
            if where[i] != ("kernel",) and where[i][-1:] != ("kernel",):
                say(number, "a threadgroup variable that is not at the beginning of a kernel's scope")
            if next(t for t, _ in plain[i:] if t in ("=", ";")) == "=":
                say(number, "a threadgroup variable with a value")
        if token == "constexpr" and plain[i - 1][0] != "if" and all(kind == "scope" for kind in where[i]) and not is_function(plain, i) and not has_space(plain, i):
            say(number, "a variable outside of functions that is not constant")
        if token == "static" and any(kind != "scope" for kind in where[i]):
            say(number, "a static variable inside of a function")


def has_space(plain, i):
    """Whether the statement around token i names the constant space."""
    start = i
    while start > 0 and plain[start - 1][0] not in (";", "{", "}"):
        start -= 1
    return any(t == MARK["constant"] for t, _ in plain[start:i])


def is_function(plain, i):
    for token, _ in plain[i:]:
        if token in ("=", ";", "{"):
            return False
        if token == "(":
            return True
    return False


def check_kernel_names(plain, say):
    """A kernel inside a namespace needs a host name: its own name would differ on the host."""
    where = scopes(plain)
    named = {plain[k][0] for i, (t, _) in enumerate(plain) if t == "host_name" for k in range(i, min(i + 40, len(plain)))}
    for i, (token, number) in enumerate(plain):
        if token != "kernel" or plain[i + 1][0] != "void" or not where[i]:
            continue
        if plain[i + 2][0] not in named:
            say(number, f"kernel {plain[i + 2][0]} in a namespace has no host_name")


# Rows of any length: their launcher asks the pipeline how many threads it can have.
ANY_THREADS = {"norm_rows", "norm_rows_backward", "row_sums", "softmax_rows", "softmax_rows_backward"}


def check_kernel_threads(plain, say):
    """The compiler allocates registers by the threads of a launch: the kernel declares them, or the launcher chooses them."""
    for i, (token, number) in enumerate(plain):
        if token != "kernel" or plain[i + 1][0] != "void" or plain[i + 3][0] != "(":  # an instantiation has its template's
            continue
        name, stated = plain[i + 2][0], False
        for before, _ in reversed(plain[:i]):
            if before in (";", "{", "}", ">"):
                break
            stated |= before == "max_total_threads_per_threadgroup"
        if stated == (name in ANY_THREADS):
            say(number, f"kernel {name} {'states' if stated else 'does not state'} max_total_threads_per_threadgroup")


RULES = [check_parameters, check_indices, check_variables, check_kernel_names, check_kernel_threads]
