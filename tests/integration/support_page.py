"""docs/support.md equals the output of `weft support`. A backend that this build lacks is not compared."""
import pathlib
import subprocess
import sys

ABSENT = " not in this build "
tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
printed = subprocess.run([tool, "support"], capture_output=True, text=True, check=True).stdout.splitlines()
page = (source / "docs/support.md").read_text().splitlines()


def same(ours, theirs):
    ours, theirs = ours.split("|"), theirs.split("|")
    return len(ours) == len(theirs) and all(a == b or a == ABSENT for a, b in zip(ours, theirs))


if len(printed) != len(page) or not all(same(a, b) for a, b in zip(printed, page)):
    sys.exit("docs/support.md is out of date: run `weft support > docs/support.md`")
print("1 passed, 0 failed")
