"""docs/support.md is what `weft support` prints."""
import pathlib
import subprocess
import sys

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
printed = subprocess.run([tool, "support"], capture_output=True, text=True, check=True).stdout
page = (source / "docs/support.md").read_text()
if printed != page:
    sys.exit("docs/support.md is out of date: run `weft support > docs/support.md`")
print("1 passed, 0 failed")
