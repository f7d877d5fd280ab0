"""weft chat on a terminal: line editing, history, Ctrl-C, Ctrl-D, colours. Skipped on systems without pseudo-terminals."""
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

from checks import expect, finish, skip

tool = sys.argv[1]
LEFT, RIGHT, UP, HOME, END = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[H", "\x1b[F"
CTRL = {letter: chr(ord(letter) - ord("A") + 1) for letter in "ACDEKUW"}
BACKSPACE = "\x7f"


class Terminal:
    def __init__(self, *args, **environment):
        try:
            self.process, self.ours = pty.fork()
        except OSError as error:  # a bare container
            skip(f"this system has no pseudo-terminals ({error})")
        if self.process == 0:
            os.environ.update(environment)
            os.execv(tool, [tool, "chat", *map(str, args)])
        self.shown = ""
        self.read_until(r"> $")

    def read_until(self, pattern, seconds=30):
        """Reads until what is shown since the last call matches; returns it."""
        start, end, since = len(self.shown), time.time() + seconds, ""
        while not re.search(pattern, since):
            if time.time() > end or not select.select([self.ours], [], [], 1)[0]:
                if time.time() > end:
                    sys.exit(f"no {pattern!r} within {seconds} s in {since!r}")
                continue
            try:
                data = os.read(self.ours, 65536)
            except OSError:  # the other end is closed
                break
            self.shown += data.decode(errors="replace")
            since = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", self.shown[start:])
        return since

    def type(self, keys):
        os.write(self.ours, keys.encode())

    def say(self, keys, pattern=r"\n> $"):
        self.type(keys + "\r")
        return self.read_until(pattern)

    def end(self):
        os.close(self.ours)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def messages_in(path):
    """Of a saved conversation: a list, or an object with the template's variables."""
    saved = json.loads(path.read_text())
    return saved if isinstance(saved, list) else saved["messages"]


def messages(path):
    return [message["content"] for message in messages_in(path) if message["role"] == "user"]


def editing(folder, model):
    """Each line is typed with mistakes and corrected; the saved conversation has what was sent."""
    typed = {
        "Whxat" + LEFT * 2 + BACKSPACE + END + " now?": "What now?",
        "two" + HOME + "one " + CTRL["E"] + " three": "one two three",
        "rest" + CTRL["A"] + "the ": "the rest",
        "keep this, not that" + LEFT * len(", not that") + CTRL["K"]: "keep this",
        "wrong" + CTRL["U"] + "right": "right",
        "one word less" + CTRL["W"] + "more": "one word more",
        "hé 你好🙂" + BACKSPACE * 5 + "ello": "hello",
        "你好" + LEFT + "们" + RIGHT + "!": "你们好!",
    }
    # A shell's locale may be anything: UTF-8 is used whatever it is.
    terminal = Terminal(model, "--max-tokens", 2, LC_ALL="C", TERM="xterm")
    for keys in typed:
        terminal.say(keys)
    terminal.say(UP)  # sends the last line again
    terminal.say("first \\", r"\. $")
    terminal.say("second")
    terminal.say('"""', r"\. $")
    terminal.say("a", r"\. $")
    terminal.say('b"""')
    terminal.say(f"/save {folder / 'typed.json'}")
    terminal.type("half a line")
    terminal.read_until("half a line")
    terminal.type(CTRL["C"])
    terminal.read_until(r"\n> $")
    terminal.say(f"/save {folder / 'after.json'}")
    terminal.type(CTRL["D"])
    expect("Ctrl-D ends the chat", terminal.read_until(r"(?!)") is not None and terminal.end() == 0)
    sent = messages(folder / "typed.json")
    for got, wanted in zip(sent, typed.values()):
        expect(f"edited to {wanted!r}", got == wanted, got)
    expect("the last line again, a continued one and a block", sent[len(typed):] == ["你们好!", "first \nsecond", "a\nb"], sent[len(typed):])
    expect("Ctrl-C clears the line", messages(folder / "after.json") == sent)
    history = folder / "state/weft/chat_history"
    expect("the history is the user's alone", history.stat().st_mode & 0o077 == 0, oct(history.stat().st_mode))
    terminal = Terminal(model, "--max-tokens", 2, TERM="xterm")
    terminal.say(UP + UP + UP)  # two commands before it
    terminal.say(f"/save {folder / 'recalled.json'}")
    terminal.type("/exit\r")
    terminal.read_until(r"(?!)")
    expect("/exit ends the chat", terminal.end() == 0)
    expect("lines are recalled in the next chat", len(messages(folder / "recalled.json")) == 1, messages(folder / "recalled.json"))


def stopping(folder, model):
    """Ctrl-C stops a long answer; the part said so far stays and the chat goes on."""
    terminal = Terminal(model, "--max-tokens", 16000, TERM="xterm")
    terminal.type("go on\r")
    time.sleep(1)
    terminal.type(CTRL["C"])
    shown = terminal.read_until(r"stays in the conversation\]\s+> $")
    expect("Ctrl-C stops an answer", "[stopped; the part above stays in the conversation]" in shown, shown[-200:])
    terminal.say(f"/save {folder / 'stopped.json'}")
    saved = messages_in(folder / "stopped.json")
    expect("the part said so far stays", len(saved) == 2 and 0 < len(saved[1]["content"]), [len(m["content"]) for m in saved])
    terminal.say("/set max-tokens 3")
    shown = terminal.say("again")
    expect("the chat goes on", "cut after 3 tokens" in shown, shown)
    terminal.type(CTRL["D"])
    terminal.read_until(r"(?!)")
    expect("and ends", terminal.end() == 0)


def colours(model):
    for environment, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        terminal = Terminal(model, "--no-history", **environment)
        terminal.say("/exti")
        terminal.type(CTRL["D"])
        terminal.read_until(r"(?!)")
        terminal.end()
        expect(f"colours with {environment}", ("\x1b[31m" in terminal.shown) == coloured and "did you mean /exit?" in terminal.shown, terminal.shown)


def train(folder, name, *args):
    with open(folder / "talk.jsonl", "w") as file:
        for i in range(40):
            file.write(json.dumps({"messages": [{"role": "user", "content": f"Question {i}"}, {"role": "assistant", "content": f"Answer {i}"}]}) + "\n")
    flags = ["--vocabulary", "bytes", "--layers", "2", "--heads", "4", "--sequence", "64", "--batch", "2", "--validation", "0", "--steps", "1"]
    subprocess.run([tool, "train", "--data", folder / "talk.jsonl", "--chat-template", "chatml", *flags, *args, "--out", folder / name],
                   check=True, capture_output=True)
    return folder / name / "model"


with tempfile.TemporaryDirectory() as temporary:
    place = pathlib.Path(temporary)
    os.environ["WEFT_CACHE"] = str(place / "cache")
    os.environ["XDG_STATE_HOME"] = str(place / "state")
    small = train(place, "small", "--width", "32", "--context", "1024")
    if "without libedit" in subprocess.run([tool, "chat", "--help"], capture_output=True, text=True, check=True).stdout:
        print("skipped: line editing, this build was made without libedit")
    else:
        editing(place, small)
    stopping(place, train(place, "long", "--width", "128", "--context", "16384"))
    colours(small)
finish()
