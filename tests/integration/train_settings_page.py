"""The table of settings in docs/training.md equals `weft train --help`. --write updates the table."""
import pathlib
import re
import subprocess
import sys

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
shown = subprocess.run([tool, "train", "--help"], capture_output=True, text=True, check=True).stdout
shown = re.sub(r"(?m)^(  --\S.*)\n {10,}", r"\1  ", shown)  # a long flag has its text on the next line
table = ["| key | default | |", "|---|---|---|"]
for line in shown[shown.index("\ndata:"):].splitlines():
    if re.fullmatch(r"\w+:", line):
        table.append(f"| **{line[:-1]}** | | |")
    elif match := re.fullmatch(r"  --(\S+)(?: ([A-Z]+)(?:=(\S+))?)?  +(.*)", line):
        names, kind, default, text = match.groups()
        flag = names.split(",")[0]
        default = ("true" if f"--no-{flag}" in names else "false") if kind is None else "" if default is None else f"`{default}`"
        table.append(f"| `{flag.replace('-', '_')}` | {default} | {text.replace('|', '&#124;').replace('<', '&lt;')} |")
path = source / "docs/training.md"
page = path.read_text()
begin, end = "<!-- settings: python3 tests/integration/train_settings_page.py TOOL . --write -->\n", "\n<!-- end of settings -->"
assert begin in page and end in page, f"{path} has lost the marks around its settings"
first = page.index(begin) + len(begin)
wanted = page[:first] + "\n".join(table) + page[page.index(end):]
if "--write" in sys.argv:
    path.write_text(wanted)
elif wanted != page:
    sys.exit(f"docs/training.md is out of date: run {begin.strip('<!-> ').strip()}")
assert len(table) > 50, table
print("1 passed, 0 failed")
