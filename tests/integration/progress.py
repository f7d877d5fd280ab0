"""What takes long says how far it has come, on a terminal and nowhere else, and Ctrl-C ends it."""
import os
import pty
import re
import signal
import subprocess
import sys

tool = sys.argv[1]
passed = failed = 0


def expect(what, ok, shown=""):
    global passed, failed
    passed += bool(ok)
    failed += not ok
    if not ok:
        print(f"FAILED {what}: {shown}")


# All cases take far more than the two seconds after which they are counted.
ours, theirs = pty.openpty()
process = subprocess.Popen([tool, "check"], stdout=subprocess.DEVNULL, stderr=theirs)
os.close(theirs)
shown = ""
try:
    while not re.search(r"case \d+ of \d{3,} \[.*\] +\d+ % +[\d:]+ left", shown):
        shown += os.read(ours, 65536).decode(errors="replace")
except OSError:  # it ended before
    pass
expect("check says how far it is", "case" in shown, shown)
process.send_signal(signal.SIGINT)
expect("Ctrl-C ends it", process.wait(timeout=60) == -signal.SIGINT, process.returncode)
os.close(ours)

piped = subprocess.run([tool, "check", "--op", "rms_norm"], capture_output=True, text=True, timeout=120)
expect("a pipe gets no progress", piped.returncode == 0 and piped.stderr == "", piped.stderr)

print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
