"""Checks of an integration script: counts them, prints those that fail, and ends the script with the result."""
import sys
import threading

passed = failed = 0
counting = threading.Lock()
SKIPPED = 77  # exit code that ctest reports as skipped (tests/CMakeLists.txt)


def expect(what, ok, shown=""):
    global passed, failed
    with counting:
        passed += bool(ok)
        failed += not ok
    if not ok:
        print(f"FAILED {what}: {shown}")


def finish():
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)
