"""ranks_kills.py TOOL SOURCE [kills]: a rank is killed with SIGKILL at seeded moments, half of them while a checkpoint is written, and
the run resumed with another number of ranks. It ends with the bytes of a run that was never interrupted. Then stops: SIGUSR1 and
Ctrl-C to mpirun, SIGUSR1 and SIGTERM to one rank."""
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

from checks import expect, finish
from mpi import Run, differences, need_mpi, results, run, small

need_mpi()
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
STEPS = 30
ARGUMENTS = small("--out", "run", "--batch", 8, "--dropout", 0.1, "--steps", STEPS, "--save-every", 3, "--evaluate-every", 15, "--evaluate-units", 4)
RANKS = (1, 2, 4)


def half_written(out):
    folder = out / "checkpoints"
    return [p.name for p in folder.iterdir() if p.name.endswith(".incomplete")] if folder.exists() else []


def resumed(at):
    """--resume, unless the run was killed before it wrote its settings."""
    return ["--resume"] if (at / "run/config.toml").exists() else []


def gone(pid):
    """Soon: mpirun does not wait for the processes that it kills."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            if open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def kill(at, ranks, chance):
    """Starts or resumes the run and kills one rank; 0: the run ended before."""
    job = Run(at, ranks, *ARGUMENTS, *resumed(at))
    starting, writing = chance.random() < 0.2, chance.random() < 0.5
    if starting:
        until = time.monotonic() + chance.uniform(0.1, 1.5)
        job.wait_for(lambda: time.monotonic() > until)
    else:
        first = job.steps() + chance.randrange(1, 12)
        job.wait_for(lambda: job.steps() >= first)
        if writing:
            job.wait_for(lambda: half_written(at / "run"))
    pids = job.pids() if ranks > 1 else {0: job.process.pid}
    if not job.running() or not pids:
        job.wait()
        return False
    rank = chance.choice(sorted(pids))
    killed = time.monotonic()
    try:
        os.kill(pids[rank], signal.SIGKILL)
    except ProcessLookupError:
        pass
    job.wait()
    seconds = time.monotonic() - killed
    if job.code == 0:  # it was over
        return False
    expect(f"{ranks} ranks end when rank {rank} is killed", seconds < 100 and all(map(gone, pids.values())), (seconds, job.shown()))
    if ranks > 1 and starting is False:
        expect(f"rank {rank} is named", f"rank {rank} " in job.text() or f"rank {rank}:" in job.text(), job.shown())
    return True


def kills(folder, reference):
    chance = random.Random(19)
    done = writes = runs = 0
    while done < KILLS:
        at = folder / f"killed{runs}"
        at.mkdir()
        runs += 1
        while done < KILLS:
            if not kill(at, chance.choice(RANKS[1:]) if chance.random() < 0.8 else 1, chance):
                break
            done += 1
            writes += bool(half_written(at / "run"))
        last = run(at, chance.choice(RANKS), *ARGUMENTS, *resumed(at))
        expect(f"killed run {runs} ends", last.code == 0, last.shown())
        differ = differences(results(at / "run"), reference)
        expect(f"killed run {runs} has the bytes of an unbroken one", not differ, differ)
        expect("nothing half written is left", not half_written(at / "run"), half_written(at / "run"))
    print(f"{done} kills in {runs} runs, {writes} of them while a checkpoint was being written")


def stops(folder, reference):
    """Each leaves a run that another number of ranks continues to the same bytes."""
    to_mpirun, to_rank = lambda job: job.process.pid, lambda job: job.pids()[1]
    for what, number, whom, saves in (("SIGUSR1 to mpirun", signal.SIGUSR1, to_mpirun, True), ("SIGUSR1 to rank 1", signal.SIGUSR1, to_rank, True),
                                      ("SIGTERM to rank 1", signal.SIGTERM, to_rank, True), ("Ctrl-C on mpirun", signal.SIGINT, to_mpirun, False)):
        at = folder / what.replace(" ", "_")
        job = Run(at, 2, *ARGUMENTS)
        if not job.wait_for(lambda: job.steps() >= 3):
            expect(what, False, job.wait().shown())
            continue
        os.kill(whom(job), number)
        job.wait()
        text = job.text()
        if saves:
            expect(f"{what}: saved, exit code 0", job.code == 0 and text.count("stopped after step") == 1, job.shown())
        else:
            expect(f"{what}: no promise to save", job.code != 0 and "stopping and saving" not in text and job.seconds < 60, job.shown())
        if whom is to_rank:  # as above, seen from rank 0
            continue
        last = run(at, 4, *ARGUMENTS, "--resume")
        expect(f"{what}: resumed", last.code == 0, last.shown())
        differ = differences(results(at / "run"), reference)
        expect(f"{what}: the bytes of an unbroken run", not differ, differ)
    one = Run(folder / "alone", 1, *ARGUMENTS)
    one.wait_for(lambda: one.steps() >= 3)
    one.process.send_signal(signal.SIGUSR1)
    one.wait()
    expect("SIGUSR1 to one process", one.code == 0 and "stopped after step" in one.text(), one.shown())


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    whole = run(folder / "whole", 1, *ARGUMENTS)
    expect("a whole run", whole.code == 0, whole.shown())
    reference = results(folder / "whole/run")
    kills(folder, reference)
    stops(folder, reference)
finish()
