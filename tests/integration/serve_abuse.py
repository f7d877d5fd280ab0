"""weft serve under requests that are cut off, malformed, too large, too slow or too many: it neither crashes nor leaks. Only 127.0.0.1.

    serve_abuse.py TOOL SOURCE_DIR [REQUESTS]
"""
import contextlib
import gzip
import json
import os
import pathlib
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time

from checks import expect, finish

tool, source = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
REQUESTS = int(sys.argv[3]) if len(sys.argv) > 3 else 10000
MODEL = source / "tests/golden/models/llama"
CLIENTS, MAX_BODY = 8, 200000
STATUSES = {200, 400, 401, 403, 404, 408, 411, 413, 414, 415, 416, 429, 431, 499, 503, 504}  # 499: a client that closes its side has left
HEAD = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

seen, problems = {}, []
noting = threading.Lock()


def note(kind, answer):
    statuses = [int(s) for s in re.findall(rb"^HTTP/1\.1 (\d+) ", answer, re.MULTILINE)]
    with noting:
        for status in statuses or [0]:
            seen[kind, status] = seen.get((kind, status), 0) + 1
        if (answer and not answer.startswith(b"HTTP/1.1 ")) or set(statuses) - STATUSES or str(source).encode() in answer:
            problems.append((kind, answer[:300]))


class Client:
    def __init__(self, port, seed):
        self.port, self.random = port, random.Random(seed)

    def connect(self, buffer=None):
        client = socket.socket()
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.settimeout(300)
        client.connect(("127.0.0.1", self.port))
        return client

    def send(self, client, data, half=False):
        """All that comes back; `half`: after closing the sending side."""
        answer = b""
        with contextlib.suppress(ConnectionError):
            client.sendall(data)
            if half:
                client.shutdown(socket.SHUT_WR)
            while more := client.recv(65536):
                answer += more
        client.close()
        return answer

    def reset(self, client):
        with contextlib.suppress(OSError):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    def body(self):
        r = self.random
        body = {"max_tokens": r.randint(0, 8), "temperature": r.choice([0, 1]), "n": r.randint(1, 3)}
        if r.random() < 0.5:
            body |= {"prompt": [r.randint(3, 250) for _ in range(r.randint(1, 100))], "logprobs": r.choice([None, 0, 3]), "echo": r.random() < 0.3}
            return "/v1/completions", body
        return r.choice(["/v1/completions", "/tokenize"]), body | {"prompt": "".join(chr(r.choice([r.randint(32, 126), r.randint(160, 0xd7ff)])) for _ in range(r.randint(0, 60)))}

    def post(self, path, body, extra="Connection: close\r\n"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return (HEAD.format(path) + extra + f"Content-Length: {len(data)}\r\n\r\n").encode() + data

    # One kind of abuse each; they return what the server answered.
    def valid(self):
        return self.send(self.connect(), self.post(*self.body()))

    def aborted(self):
        path, body = self.body()
        client = self.connect()
        with contextlib.suppress(ConnectionError):
            client.sendall(self.post("/v1/completions", body | {"stream": True, "max_tokens": 100}))
            if self.random.random() < 0.7:
                client.recv(self.random.randint(1, 3000))
            time.sleep(self.random.random() * 0.02)
        self.reset(client) if self.random.random() < 0.5 else client.close()
        return b""

    def malformed(self):
        path, body = self.body()
        data = bytearray(json.dumps(body).encode())
        for _ in range(self.random.randint(1, 5)):
            at = self.random.randrange(len(data))
            data[at:at + self.random.randint(0, 3)] = self.random.randbytes(self.random.randint(0, 3))
        return self.send(self.connect(), self.post(path, bytes(data)))

    def deep(self):
        depth, (begin, end) = self.random.randint(60, 30000), self.random.choice([(b"[", b"]"), (b'{"a":', b"}")])
        return self.send(self.connect(), self.post("/v1/completions", b'{"prompt":' + begin * depth + b"1" + end * depth + b"}"))

    def huge_body(self):
        size = self.random.randint(MAX_BODY // 2, MAX_BODY * 20)
        return self.send(self.connect(), self.post(self.random.choice(["/v1/completions", "/nowhere"]), b'{"prompt":"' + b"a" * size + b'"}'))

    def bomb(self):
        data = gzip.compress(b'{"prompt":"' + b"a" * self.random.randint(1000, 10**7) + b'"}')
        return self.send(self.connect(), self.post("/v1/completions", data, "Connection: close\r\nContent-Encoding: gzip\r\n"))

    def huge_head(self):
        lines = self.random.choice([b"X: " + b"a" * self.random.randint(5000, 500000), b"X: a\r\n" * self.random.randint(100, 50000),
                                    b"Cookie: " + self.random.randbytes(5000)])
        return self.send(self.connect(), b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + lines + b"\r\n\r\n")

    def slow_reader(self):
        path, body = self.body()
        client = self.connect(buffer=2048)
        answer = b""
        with contextlib.suppress(ConnectionError):
            client.sendall(self.post("/v1/completions", body | {"stream": True, "max_tokens": 100, "logprobs": 20, "echo": False}))
            for _ in range(self.random.randint(1, 20)):
                answer += client.recv(100)
                time.sleep(0.005)
        client.close()
        return answer

    def half_closed(self):
        return self.send(self.connect(), self.post(*self.body()), half=True)

    def cut_off(self):
        data = self.post(*self.body())
        client = self.connect()
        with contextlib.suppress(ConnectionError):
            client.sendall(data[:self.random.randrange(len(data))])
        self.reset(client) if self.random.random() < 0.5 else client.close()
        return b""

    def junk(self):
        return self.send(self.connect(), self.random.randbytes(self.random.randint(1, 5000)) + b"\r\n\r\n", half=True)

    def chunked(self):
        path, body = self.body()
        data = json.dumps(body).encode()
        parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (data[i:i + 20] for i in range(0, len(data), 20)))
        wrong = self.random.choice([b"", b"zz\r\n", b"ffffffffffffffffff\r\n", b"-1\r\n"])
        return self.send(self.connect(), HEAD.format(path).encode() + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + wrong + parts + b"0\r\n\r\n", half=True)

    def pipelined(self):
        many = b"".join(self.post(*self.body(), extra="") for _ in range(self.random.randint(2, 6)))
        return self.send(self.connect(), many + self.post("/tokenize", {"text": "a"}))

    def elsewhere(self):
        method = self.random.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW"])
        path = self.random.choice(["/", "/metrics", "/v1/models/" + "%2e" * 50, "/../../etc/passwd", "*", "/health?a=b#c", "/v1/completions"])
        return self.send(self.connect(), f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nRange: bytes=5-1\r\n\r\n".encode(), half=True)


KINDS = [Client.valid, Client.valid, Client.aborted, Client.aborted, Client.malformed, Client.malformed, Client.deep, Client.huge_body, Client.bomb, Client.huge_head,
         Client.slow_reader, Client.half_closed, Client.cut_off, Client.junk, Client.chunked, Client.pipelined, Client.elsewhere]


def resident(process):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1]) / 1024


def quiet(port, process):
    """Waits until nothing runs; descriptors and threads then."""
    for _ in range(3000):
        metrics = ask(port, "/metrics")
        if re.search(r"^weft_sequences_running 0$", metrics, re.M) and re.search(r"^weft_sequences_waiting 0$", metrics, re.M):
            threads = len(os.listdir(f"/proc/{process.pid}/task"))
            if threads <= quiet.threads:
                break
        time.sleep(0.1)
    return len(os.listdir(f"/proc/{process.pid}/fd")), len(os.listdir(f"/proc/{process.pid}/task"))


def ask(port, path, body=None):
    client = Client(port, 0)
    data = client.post(path, body) if body else f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    return client.send(client.connect(), data).decode()


def main():
    process = subprocess.Popen([tool, "serve", str(MODEL), "--port", "0", "--threads", "2", "--max-body", str(MAX_BODY), "--idle", "2", "--connections", "64", "--queue", "200"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    port = int(re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())[1])
    probe = ("/v1/completions", {"prompt": "Hello", "max_tokens": 20, "logprobs": 1})
    alone = json.loads(ask(port, *probe).split("\r\n\r\n", 1)[1])["choices"]
    quiet.threads = 1000
    time.sleep(2)
    begin = (len(os.listdir(f"/proc/{process.pid}/fd")), len(os.listdir(f"/proc/{process.pid}/task")))
    quiet.threads = begin[1] + 1  # the connection that asks
    sizes, done = [], [0]

    def work(seed):
        client = Client(port, seed)
        while True:
            with noting:
                if done[0] >= REQUESTS or process.poll() is not None:
                    return
                done[0] += 1
                if done[0] % max(1, REQUESTS // 20) == 0:
                    sizes.append(resident(process))
            kind = client.random.choice(KINDS)
            try:
                note(kind.__name__, kind(client))
            except Exception as error:  # a server that hangs or refuses connections
                with noting:
                    problems.append((kind.__name__, repr(error)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect("it runs", process.poll() is None, process.returncode)
    expect("every answer is one", not problems, problems[:5])
    expect("the same answer as before", json.loads(ask(port, *probe).split("\r\n\r\n", 1)[1])["choices"] == alone)
    end = quiet(port, process)
    expect("descriptors and threads", end[0] <= begin[0] + 1 and end[1] <= begin[1] + 1, (begin, end))
    if REQUESTS >= 5000:  # the allocator's arenas have grown by then
        expect("memory is flat", max(sizes[10:]) < max(sizes[4:10]) * 1.05 + 8, sizes)
    process.terminate()
    expect("it ends", process.wait(300) == 0, process.returncode)
    print("resident MiB:", " ".join(f"{size:.0f}" for size in sizes))
    for (kind, status), count in sorted(seen.items()):
        print(f"{kind:12} {status or 'none':>4} {count}")
    finish()


main()
