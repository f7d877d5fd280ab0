"""README's example is examples/quickstart.cpp, and its links lead somewhere."""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[2])
readme = (source / "README.md").read_text()
assert (source / "examples/quickstart.cpp").read_text().rstrip() in readme, "README's example differs from examples/quickstart.cpp"
for page in [source / "README.md", source / "CONTRIBUTING.md", *(source / "docs").glob("*.md")]:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)  # a lambda looks like a link
    for target in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"
for script in re.findall(r"scripts/[a-z0-9-]+", readme):
    assert (source / script).exists(), f"README names {script}, which is not there"
print("1 passed, 0 failed")
