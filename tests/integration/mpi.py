"""weft train under mpirun, with what Open MPI needs to run as root, without ssh and with more ranks than cores."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from checks import skip

tool = pathlib.Path(sys.argv[1]).resolve()
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "SLURM_"))} | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_plm_rsh_agent": "sh",
    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}  # MPI keeps memory until the end
SMALL = {"--layers": 1, "--width": 32, "--heads": 2, "--sums-rows": 4, "--warmup": 3, "--pass-tokens": 1, "--log-every": 1, "--data": "sums"}


def small(*more):
    """Settings of a small run; those given again replace them."""
    return [*(word for flag, value in SMALL.items() if flag not in more for word in (flag, value)), *more]


def need_mpi():
    """Skips without MPI. The scripts know Open MPI's variables and messages."""
    shown = subprocess.run([tool, "devices"], capture_output=True, text=True).stdout
    if not re.search(r"(?m)^MPI +Open MPI", shown) or not shutil.which("mpirun"):
        skip("this build has no Open MPI, or there is no mpirun")
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, env=ENVIRONMENT).stdout
    if "Open MPI" not in version:
        skip("mpirun is not Open MPI's")


def command(ranks, *arguments, wrapper=()):
    """One process is started without mpirun. `wrapper` is a program that runs the tool."""
    launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    return [*launcher, *map(str, wrapper), str(tool), "train", *map(str, arguments)]


class Run:
    """A run in the background; both outputs go to its log."""

    def __init__(self, folder, ranks, *arguments, wrapper=(), limit=300):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.log, self.limit, self.start = folder, folder / "log", limit, time.monotonic()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command(ranks, *arguments, wrapper=wrapper), env=ENVIRONMENT, cwd=folder, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=subprocess.STDOUT)

    def text(self):
        return self.log.read_text()

    def said(self):
        return re.findall(r"^weft: .*", self.text(), re.MULTILINE)  # without the launcher's lines

    def running(self):
        return self.process.poll() is None

    def wait_for(self, what):
        """False: the run ended before."""
        until = self.start + self.limit
        while self.running() and not what() and time.monotonic() < until:
            time.sleep(0.002)
        return self.running()

    def steps(self):
        return len(re.findall(r"^ *\d+/\d+ loss ", self.text(), re.MULTILINE))

    def wait(self):
        try:
            self.code = self.process.wait(self.limit)
        except subprocess.TimeoutExpired:
            self.code = f"none after {self.limit} s"
            for pid in self.pids().values():
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        self.seconds = time.monotonic() - self.start
        return self

    def pids(self):
        """Processes by rank."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == self.process.pid:
                    rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", (entry / "environ").read_bytes())
                    if rank:
                        found[int(rank[1])] = int(entry.name)
            except (OSError, IndexError):
                continue
        return found

    def shown(self):
        return f"exit {self.code} after {self.seconds:.1f} s: {self.text()[-1500:]}"


def run(folder, ranks, *arguments, **more):
    return Run(folder, ranks, *arguments, **more).wait()


def records(out):
    """metrics.jsonl without what depends on time."""
    timed = ("seconds", "tokens_per_second", "utilisation")
    return [{k: v for k, v in json.loads(line).items() if k not in timed} for line in (out / "metrics.jsonl").read_text().splitlines()]


def results(out):
    """All that a run leaves and that does not depend on time, by name."""
    names = [*sorted(out.glob("checkpoints/*")), *sorted(out.glob("best/*")), *sorted(out.glob("model/*")), *sorted(out.glob("adapter/*"))]
    return {str(p.relative_to(out)): p.read_bytes() for p in names} | {"metrics.jsonl": records(out)}


def differences(a, b):
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
