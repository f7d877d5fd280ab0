"""ranks.py PROGRAM HAS_MPI SANITIZED: runs the checks of ranks.cpp under mpirun, with what Open MPI needs to run as root and with more ranks than
cores. Skips without MPI or mpirun."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integration"))
from checks import expect, finish, skip

program, has_mpi, sanitized = sys.argv[1:4]
if has_mpi != "ON":
    skip("this build has no MPI")
if not shutil.which("mpirun"):
    skip("there is no mpirun")

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "SLURM_"))} | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_plm_rsh_agent": "sh",
    "ASAN_OPTIONS": "detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", "")}  # Open MPI's
HOST = socket.gethostname()
TIMEOUT = 20 if sanitized else 6  # of checks that wait for it; the ranks must have started before
LATE = rf"within {TIMEOUT} s \(--timeout\)"


class Run:
    def __init__(self, command, more={}):
        start = time.monotonic()
        try:
            done = subprocess.run(command, env=ENVIRONMENT | more, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=120)
            self.code, self.text = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            self.code, self.text = "none", (late.stdout or b"").decode()
        self.seconds = time.monotonic() - start
        self.said = re.findall(r"^(?:weft|ranks): .*", self.text, re.MULTILINE)  # without the launcher's lines
        self.shown = f"exit {self.code} after {self.seconds:.1f} s: {self.text[-600:]}"


def mpirun(ranks, *arguments, options=(), timeout=100):
    return Run(["mpirun", "-n", str(ranks), *options, program, str(timeout), *map(str, arguments)])


def alone():  # LD_DEBUG: the loader prints every library it opens
    for what, run in (("alone", Run([program, "10", "cores"], {"LD_DEBUG": "files"})),
                      ("the only rank", Run(["mpirun", "-n", "1", "env", "LD_DEBUG=files", program, "10", "cores"]))):
        expect(f"{what}: MPI is not loaded", run.code == 0 and "libc.so" in run.text and "libmpi" not in run.text, run.shown)
    run = Run(["mpirun", "-n", "2", "env", "LD_DEBUG=files", program, "10", "cores"])
    expect("two ranks: MPI is loaded", run.code == 0 and "libmpi" in run.text, run.shown)


def moves():
    for ranks in (2, 4):
        run = mpirun(ranks, "moves")
        expect(f"moves of {ranks} ranks", run.code == 0 and "all moves are right" in run.text, run.shown)


def staged():  # device memory that is not host memory
    run = mpirun(2, "moves", 1)
    if "metal-sim" in run.text and "not" in run.text:
        return print("skipped: no second device in this build")
    expect("moves of a device's memory", run.code == 0 and "all moves are right" in run.text, run.shown)


def contained():
    run = mpirun(2, "moves", 2)
    if "no seccomp" in run.text:
        return print("skipped: no seccomp")
    expect("without process_vm_readv: the moves, and not a line for each", run.code == 0 and len(run.text.splitlines()) == 1, run.shown)


def ends(what, run, message, code=None, within=100):
    """One line of ours, a failure, and no hanging."""
    expect(f"{what}: one message", len(run.said) == 1 and re.fullmatch(message, run.said[0]), run.shown)
    expect(f"{what}: exit status", run.code == code if code else run.code not in (0, "none"), run.shown)
    expect(f"{what}: it does not hang", run.seconds < within, run.shown)


def stopped():
    for rank in (3, 0):
        ends(f"rank {rank} is stopped", mpirun(4, "stop", rank, timeout=TIMEOUT), f"weft: rank {rank} on {HOST} did not answer {LATE}")


def chain():
    ends("a rank waits for one that waits for a stopped one", mpirun(4, "stop-chain", 3, timeout=TIMEOUT),
         f"weft: rank 3 on {HOST} did not answer {LATE}")
    ends("all wait for each other", mpirun(2, "deadlock", timeout=TIMEOUT),
         f"weft: rank 0 on {HOST}: no message arrived {LATE} although all ranks answer.*")


def stopped_before_start():
    ends("a rank is stopped before it opens MPI", mpirun(2, "stop-before", 1, timeout=TIMEOUT),
         f"weft: rank 0 of 2: MPI_Init did not finish {LATE}: not all ranks have started")


def killed():
    for rank in (0, 2):
        run = mpirun(4, "kill", rank)
        expect(f"rank {rank} is killed", run.code not in (0, "none") and run.seconds < 100, run.shown)
        expect(f"rank {rank} is killed: named by mpirun", f"rank {rank} " in run.text and HOST in run.text, run.shown)


def failing():
    ends("an error of one rank", mpirun(4, "throw", 1), "ranks: ranks: an error of rank 1", code=3)
    expect("exit of one rank", mpirun(4, "exit", 2).code == 7)
    expect("abort of one rank", mpirun(4, "abort", 1).code == 9)
    ends("too few bytes", mpirun(2, "sizes", 12, 16), "weft: rank 0 sent 12 bytes, expected 16: the ranks do not run the same steps")
    ends("too many bytes", mpirun(2, "sizes", 16, 12), "weft: a message from rank 0 failed: .*(TRUNCATE|truncated).*")


def other_launchers():
    srun = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    ends("srun without PMIx", Run([program, "10", "moves"], srun), "ranks: MPI: srun started 4 processes without PMIx: use srun --mpi=pmix .*", code=3)
    other = Run([program, "10", "moves"], srun | {"PMI_CONTROL_PORT": "1"})
    ends("srun with another PMI", other, "ranks: MPI: srun started 4 processes, but .* sees 1: use srun --mpi=pmix .*", code=3)
    run = Run([program, "10", "moves"], srun | {"SLURM_PROCID": "1", "SLURM_LOCALID": "1"})
    expect("srun without PMIx: other ranks are silent", run.code == 1 and not run.said, run.shown)
    ends("another MPI's mpirun", Run([program, "10", "moves"], {"PMI_RANK": "0", "PMI_SIZE": "2"}), "ranks: MPI: mpirun started 2 processes, but .* sees 1: use the mpirun of .*")


def cores():
    count = len(os.sched_getaffinity(0))
    for options in ((), ("--bind-to", "none"), ("--bind-to", "core")):
        run = mpirun(2, "cores", options=options)
        found = [set(cores.split(",")) for cores in re.findall(r"cores ([\d,]+) threads", run.text)]
        threads = [int(t) for t in re.findall(r"threads (\d+)", run.text)]
        ok = run.code == 0 and len(found) == 2 and all(t >= 1 for t in threads)
        expect(f"cores of 2 ranks {options}", ok and (count < 2 or sum(threads) <= len(found[0] | found[1])), run.shown)
        if options == ("--bind-to", "core"):
            expect("a binding that was asked for is kept", ok and (count < 2 or not found[0] & found[1]), run.shown)
        elif count >= 2:
            expect(f"all cores are used {options}", ok and sum(threads) == len(found[0] | found[1]) == count, run.shown)
    run = mpirun(2, "cores", 3)
    expect("--threads is respected", re.findall(r"threads (\d+)", run.text) == ["3", "3"], run.shown)
    ranks = count + 1
    if ranks <= 9:
        run = mpirun(ranks, "cores")
        expect("more ranks than cores: one thread each", re.findall(r"threads (\d+)", run.text) == ["1"] * ranks, run.shown)


def signs_of_life():
    run = mpirun(2, "signs", timeout=3)
    expect("a rank that only sends takes what others send it", run.code == 0 and not run.said, run.shown)


# Most of them sleep.
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    for job in [pool.submit(f) for f in (alone, stopped, chain, stopped_before_start, killed, failing, other_launchers, cores, staged, contained, moves, signs_of_life)]:
        job.result()
finish()
