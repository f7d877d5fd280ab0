"""weft check and weft train on a terminal: progress, the live line, and stopping. Skipped on systems without pseudo-terminals."""
import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios

from checks import expect, finish, skip

tool = sys.argv[1]
SMALL = ["--width", "32", "--batch", "1", "--sums-rows", "16", "--warmup", "2", "--evaluate-every", "0"]
HEAVY = ["--width", "384", "--layers", "6", "--heads", "6", "--sums-rows", "64", "--batch", "5000", "--evaluate-every", "0"]


def start(columns, *args):
    """Starts the tool with a terminal of so many columns as its stderr; returns the process and our end of the terminal."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:  # a bare container
        skip(f"this system has no pseudo-terminals ({error})")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([tool, *map(str, args)], stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    return process, ours


def read_until(ours, pattern):
    """The text sent to the terminal until it matches, or until the process ends."""
    shown = ""
    try:
        while not re.search(pattern, shown):
            shown += os.read(ours, 65536).decode(errors="replace")
    except OSError:  # the other end is closed
        pass
    return shown.replace("\x1b[K", "")


def progress_of_check():
    # All cases together take far longer than the two seconds after which progress is shown.
    process, ours = start(80, "check")
    shown = read_until(ours, r"case \d+ of \d{3,} \[.*\] +\d+ % +[\d:]+ left")
    expect("check shows its progress", "case" in shown, shown)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    expect("Ctrl-C ends check", process.returncode == -signal.SIGINT, process.returncode)
    os.close(ours)


def live_line_of_train(folder):
    for width, parts in {200: ["[", "loss ", " lr ", " |g| ", " left"], 80: ["loss ", " lr ", " |g| "], 50: ["loss ", " lr ", " |g| "], 20: ["loss "]}.items():
        process, ours = start(width, "train", "--out", folder / f"terminal{width}", "--steps", 30, *SMALL)
        shown = read_until(ours, r"(?!)")
        process.communicate(timeout=60)
        os.close(ours)
        lines = [line for line in shown.replace("\n", "\r").split("\r") if "loss " in line and "validation" not in line]
        ok = len(lines) >= 30 and all(len(line) < width and all(part in line for part in parts) for line in lines)
        expect(f"one live line on {width} columns", ok, lines[:2] + lines[-2:])


def stop_inside_a_step(folder):
    # A step of many minutes shows its progress, and a stop does not wait for its end.
    process, ours = start(100, "train", "--out", folder / "heavy", *HEAVY)
    read_until(ours, r"step 1 of 1000: micro-batch \d+ of \d+ \[")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=120)
    os.close(ours)
    expect("a stop inside a step", process.returncode == 0 and "stopped after step 0" in out, out)
    saved = [path.name for path in (folder / "heavy/checkpoints").iterdir()]
    expect("an unfinished step is not saved", saved == [], saved)


with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    os.environ["WEFT_CACHE"] = str(folder / "cache")
    progress_of_check()
    live_line_of_train(folder)
    stop_inside_a_step(folder)
finish()
