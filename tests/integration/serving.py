"""A running weft serve, for the tests of the server. Only 127.0.0.1."""
import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time

from checks import expect

tool = sys.argv[1]
PATIENT = {"--idle": 600, "--stall": 600, "--grace": 600}  # beside other tests no limit of time may end what is checked


class Server:
    def __init__(self, folder, *args, env=None):
        self.folder = folder
        self.process = subprocess.Popen([tool, "serve", str(folder), "--port", "0", "--threads", "2", *self.options(args)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(env or {})})
        found, printed = None, ""
        while not found and (line := self.process.stdout.readline()):
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            printed += line
        if not found:
            sys.exit(f"weft serve: {printed}exit code {self.process.wait()}")
        self.port = int(found[1])

    @staticmethod
    def options(args):
        """The given options, and those of PATIENT that are not among them."""
        return [str(each) for option in PATIENT.items() if option[0] not in args for each in option] + [str(each) for each in args]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def connect(self, timeout=300):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, path, body=None, headers=None, raw=None):
        """(status, parsed JSON or text). `raw`: the body as bytes. Head and body are sent as one: a limit of time between them does not count."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        lines = {"Host": "127.0.0.1"} | ({} if data is None else {"Content-Type": "application/json", "Content-Length": len(data)}) | (headers or {})
        head = f"{'GET' if data is None else 'POST'} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
        with socket.create_connection(("127.0.0.1", self.port), timeout=300) as client:
            with contextlib.suppress(ConnectionError):  # the server may answer before it has read all, and close
                client.sendall(head.encode() + (data or b""))
            response = http.client.HTTPResponse(client)
            response.begin()
            text = response.read().decode()
        expect("no path of this machine in an answer", str(self.folder.parent) not in text, text[:300])
        return response.status, json.loads(text) if response.getheader("Content-Type", "").startswith("application/json") else text

    def events(self, path, body):
        """The events of a stream, parsed; the last one is [DONE]."""
        connection = self.connect()
        connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        expect("a stream's type", response.getheader("Content-Type") == "text/event-stream", response.getheader("Content-Type"))
        text = response.read().decode()
        connection.close()
        expect("events are complete", text.endswith("data: [DONE]\n\n"), text[-200:])
        return [json.loads(line[6:]) for line in text.split("\n\n") if line.startswith("data: {")]

    def open_request(self, body):
        """A socket with a request for completions; nothing is read but what the kernel takes."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(300)
        client.connect(("127.0.0.1", self.port))
        data = json.dumps(body).encode()
        client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        return client

    def metric(self, name):
        return float(re.search(rf"^{re.escape(name)} (\S+)$", self.ask("/metrics")[1], re.MULTILINE)[1])

    def wait_for(self, what, condition, seconds=300):
        end = time.time() + seconds
        while not (met := condition()) and time.time() < end:  # it may have ended again by the next look
            time.sleep(0.02)
        expect(what, met)

    def accepts(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except ConnectionError:
            return False
        return True

    def hold(self, most):
        """Connections that the server has accepted and answered, and keeps: up to `most`, or until one is refused."""
        held = []
        while len(held) < most:
            connection = self.connect()
            connection.request("GET", "/health")
            response = connection.getresponse()
            response.read()
            if response.status != 200:
                connection.close()
                break
            held.append(connection)
        return held


def refused(server, what, status, body=None, path="/v1/completions", code=None, param=None, **more):
    got, error = server.ask(path, body, **more)
    error = error["error"] if isinstance(error, dict) and "error" in error else {}
    expect(what, got == status and set(error) == {"message", "type", "param", "code"} and error["message"] and
           (code is None or error["code"] == code) and (param is None or error["param"] == param), (got, error))


def is_open(client):
    """Whether the server has neither closed the connection nor answered on it."""
    client.setblocking(False)
    try:
        client.recv(1)
        return False
    except BlockingIOError:
        return True
