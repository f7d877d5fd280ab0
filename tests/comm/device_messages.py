"""device_messages.py PROGRAM DEVICE: runs device_messages.cpp under mpirun with 2 and 4 ranks, on the GPUs of this machine with NCCL (one
is enough) or on the CPU. Skips without mpirun, GPU, MPI or NCCL."""
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
from checks import SKIPPED, expect, finish, skip

program, device = sys.argv[1:3]
if not shutil.which("mpirun"):
    skip("there is no mpirun")

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "SLURM_", "NCCL_MULTI_RANK"))} | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_plm_rsh_agent": "sh"}
SHARED = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "8"}
HOST = re.escape(socket.gethostname())
LIMIT = 180


class Run:
    def __init__(self, ranks, *arguments, more=SHARED):
        start = time.monotonic()
        command = ["mpirun", "-n", str(ranks), "--bind-to", "none", program, device, *arguments]
        process = subprocess.Popen(command, env=ENVIRONMENT | more, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        try:
            self.text = process.communicate(timeout=LIMIT)[0]
            self.code = process.returncode
        except subprocess.TimeoutExpired:
            process.terminate()
            self.code, self.text = f"none after {LIMIT} s", process.communicate()[0]
        self.seconds = time.monotonic() - start
        self.said = re.findall(r"^weft: .*", self.text, re.MULTILINE)
        self.shown = f"exit {self.code} after {self.seconds:.1f} s: {self.text[-1500:]}"


def ends(what, run, message):
    """One line of ours, a failure, and no hanging."""
    expect(f"{what}: one message", len(run.said) == 1 and re.fullmatch(message, run.said[0]), run.shown)
    expect(f"{what}: ends", run.code not in (0, SKIPPED) and run.seconds < 150, run.shown)


first = Run(2)
if first.code == SKIPPED or "has no MPI" in first.text:
    skip(first.text.strip().splitlines()[0])
for ranks, run in ((2, first), (4, Run(4))):
    expect(f"messages of {ranks} ranks", run.code == 0 and f"passed: {ranks} ranks" in run.text, run.shown)
    expect(f"messages of {ranks} ranks: by NCCL", ("NCCL" in run.text) == (device == "cuda"), run.shown)
    print("\n".join(re.findall(r"^passed: .*", run.text, re.MULTILINE)))



def stopped(ranks):
    ends(f"the last of {ranks} ranks is stopped", Run(ranks, "stops"), rf"weft: rank {ranks - 1} on {HOST} did not answer within 5 s \(--timeout\)")


def late():
    ends("a rank is late", Run(4, "is-late"), rf"weft: rank 3 on {HOST} did not answer within 5 s \(--timeout\)")


def killed():
    run = Run(4, "is-killed")
    expect("a rank is killed", run.code not in (0, SKIPPED) and run.seconds < 150 and "rank 3 " in run.text, run.shown)


with concurrent.futures.ThreadPoolExecutor(4) as pool:  # most of them sleep
    for job in [pool.submit(stopped, 2), pool.submit(stopped, 4), pool.submit(late), pool.submit(killed)]:
        job.result()
gpus = int(os.environ.get("WEFT_TEST_GPUS", "1"))
if device == "cuda" and gpus < 4:
    run = Run(gpus + 1, more={})
    expect("more ranks than GPUs", run.code not in (0, SKIPPED) and re.search("ranks on this host, but|use the same GPU", run.text), run.shown)
finish()
