"""Writes the worked example of CONTRIBUTING.md as files: worked_example.py SOURCE_DIR OUTPUT_DIR.

A ```cpp block whose first line is "// weft/..." is a file of that name. A ```diff block adds lines to files of the tree: after
"--- FILE", lines with "+" go in after the line before them, or before the line after them where they come first. OUTPUT_DIR gets
the new files and the changed copies; it prints their names.
"""
import pathlib
import re
import sys


def apply(lines, hunk):
    """The file's lines with the hunk's added ones; its other lines must be in the file, in this order and together."""
    context = [line[1:] for line in hunk if not line.startswith("+")]
    squeezed = [" ".join(line.split()) for line in lines]
    wanted = [" ".join(line.split()) for line in context]
    places = [i for i in range(len(lines) - len(wanted) + 1) if squeezed[i : i + len(wanted)] == wanted]
    if len(places) != 1:
        sys.exit(f"CONTRIBUTING.md: the lines {context} stand {len(places)} times in the file that the example changes")
    at = places[0]
    new = []
    for line in hunk:
        if line.startswith("+"):
            new.append(line[1:])
        else:
            new.append(lines[at])
            at += 1
    return lines[: places[0]] + new + lines[at:]


def main():
    source, output = map(pathlib.Path, sys.argv[1:])
    files = {}
    blocks = re.findall(r"^```(cpp|diff)\n(.*?)^```$", (source / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL)
    for language, text in blocks:
        first, _, rest = text.partition("\n")
        if language == "cpp" and first.startswith("// weft/"):
            files[first[3:]] = rest
        elif language == "diff":
            for part in re.split(r"^--- ", text, flags=re.MULTILINE)[1:]:
                name, _, hunk = part.partition("\n")
                files[name] = "\n".join(apply((source / name).read_text().split("\n"), hunk.rstrip("\n").split("\n")))
    for name, text in files.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:  # else nothing is compiled again
            path.write_text(text)
    print(";".join(files))


if __name__ == "__main__":
    main()
