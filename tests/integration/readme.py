"""README's example equals examples/quickstart.cpp, its links resolve, and its training, generation and chat commands run."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[2])
readme = (source / "README.md").read_text()
assert (source / "examples/quickstart.cpp").read_text().rstrip() in readme, "README's example differs from examples/quickstart.cpp"


def anchors(page):
    """The anchors of a page's headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


pages = [source / "README.md", source / "CONTRIBUTING.md", *(source / "docs").glob("**/*.md"), *(source / "examples").glob("*.md")]
for page in pages:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)  # a lambda looks like a link
    for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", prose):
        linked = page.parent / target if target else page
        assert linked.exists(), f"{page.name} links to {target}, which is not there"
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), f"{page.name} links to {target}#{anchor}, but there is no such heading"
for script in re.findall(r"scripts/[a-z0-9-]+", readme):
    assert (source / script).exists(), f"README names {script}, which is not there"

def smaller(command):
    """A training run of README with a tiny model and a two-hundredth of its steps."""
    if "weft train" not in command or "--plan" in command:
        return command
    if command.startswith("mpirun"):
        return command + " --steps 5 --width 32 --warmup 1"
    if "--steps" not in command:
        command += " --steps 1000"
    return re.sub(r"--steps (\d+)", lambda m: f"--steps {int(m[1]) // 200}", command) + " --width 32 --batch 1 --sums-rows 8 --warmup 1"


# Open MPI as root, with more ranks than cores, without ssh.
LAUNCHER = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_plm_rsh_agent": "sh"}


def has_mpi(path):
    devices = subprocess.run(["weft", "devices"], env={**os.environ, "PATH": path}, capture_output=True, text=True).stdout
    return re.search(r"^MPI +not available", devices, flags=re.MULTILINE) is None


with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "book.txt").write_text("".join(f"The {i}th line of a book.\n" for i in range(500)))
    path = f"{pathlib.Path(sys.argv[1]).parent.resolve()}:{os.environ['PATH']}"
    ran = 0
    talk = [{"role": "user", "content": "What is your name?"}, {"role": "assistant", "content": "I am Weft."}]
    (pathlib.Path(folder) / "talk.jsonl").write_text(json.dumps({"messages": talk}) + "\n" + json.dumps({"messages": talk}) + "\n")
    (pathlib.Path(folder) / "messages.json").write_text(json.dumps(talk[:1]))
    for section in ("Training", "Generation", "Chat"):
        block = re.search(rf"## {section}\n\n```sh\n(.*?)```", readme, flags=re.DOTALL)[1]
        for line in block.splitlines():
            command = smaller(line.split("   #")[0].strip())
            if command.startswith("mpirun") and not (shutil.which("mpirun") and has_mpi(path)):
                continue
            done = subprocess.run(command, shell=True, cwd=folder, env={**os.environ, **LAUNCHER, "PATH": path, "WEFT_CACHE": folder}, capture_output=True, text=True)
            assert done.returncode == 0, f"README: {command}: exit {done.returncode}\n{done.stdout}{done.stderr}"
            ran += 1
print(f"{1 + ran} passed, 0 failed")
