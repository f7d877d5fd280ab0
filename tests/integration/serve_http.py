"""weft serve on the wire: heads and bodies that lie, are too long, too slow or too many, and connections that wait. Only 127.0.0.1."""
import contextlib
import json
import pathlib
import re
import resource
import signal
import socket
import sys

from checks import expect, finish
from serving import Server, is_open, refused

LLAMA = pathlib.Path(sys.argv[2]) / "tests/golden/models/llama"


def resident(process):
    """MiB"""
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1]) / 1024


def answers_to(server, data):
    """All that comes back on a connection of its own."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as client:
        answer = b""
        with contextlib.suppress(ConnectionError):  # the server may answer before it has read all, and close
            client.sendall(data)
        with contextlib.suppress(ConnectionError):
            while more := client.recv(4096):
                answer += more
        return answer


def framing(server):
    """Where a body ends is known, and a request inside or behind another one's body is never answered."""
    hello = {"prompt": "Hello", "max_tokens": 2}
    post = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    health = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    form = answers_to(server, b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: " +
                      str(len(health)).encode() + b"\r\n\r\n" + health)
    expect("a form", form.startswith(b"HTTP/1.1 415 ") and form.count(b"HTTP/1.1") == 1, form)
    body = b"no gzip" * 2000 + health
    broken = answers_to(server, post + b"Content-Encoding: gzip\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
    expect("a broken body", broken.startswith(b"HTTP/1.1 400 ") and b'"status":"ok"' not in broken, broken)
    expect("a body without a length", answers_to(server, post + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 411 "))
    unread = answers_to(server, post.replace(b"application/json", b"text/plain") + b"Content-Length: 2\r\n\r\n{}")
    expect("a connection that ends says so", unread.startswith(b"HTTP/1.1 415 ") and b"\r\nConnection: close\r\n" in unread and b"Keep-Alive" not in unread, unread)
    for lines in (b"Content-Length: 2\r\nContent-Length: 40", b"Content-Length: 2, 40", b"Content-Length: +2", b"Content-Length: 2\r\nTransfer-Encoding: chunked",
                  b"Transfer-Encoding: gzip, chunked", b"Content-Length: 2\r\nTransfer-Encoding: xchunked"):
        answer = answers_to(server, post + lines + b"\r\n\r\n{}" + health)
        expect(f"{lines} is refused", answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1, answer)
    smuggled = post + b"Content-Length: 40\r\n\r\n" + b'{"prompt": [5], "max_tokens": 9}'.ljust(40)
    made = server.metric("weft_new_tokens_total")
    for line in ("POST /" + "a" * 8200, "BREW /", "POST /nowhere", "PUT /v1/completions", "GET /health", "POST /v1/completions"):
        answer = answers_to(server, line.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes=x\r\nContent-Type: text/plain\r\nContent-Length: " +
                            str(len(smuggled)).encode() + b"\r\n\r\n" + smuggled)
        expect(f"a body is no request: {line[:20]}", answer.count(b"HTTP/1.1") == 1, answer)
    expect("nothing was computed for them", server.metric("weft_new_tokens_total") == made)
    status, part = server.ask("/health", headers={"Range": "bytes=0-1", "Accept-Encoding": "br, gzip"})
    expect("no ranges and no compression", status == 200 and part == {"status": "ok"}, (status, part))
    for host in ("attacker.example", "127.0.0.1.attacker.example:80"):
        refused(server, "another host", 403, hello, headers={"Host": host}, code="forbidden_host")
    refused(server, "a long body", 413, raw=b'{"prompt":"' + b"a" * 200000 + b'"}')
    connection = server.connect()
    connection.request("POST", "/v1/completions", iter([b'{"prompt":"'] + [b"a" * 10000] * 20 + [b'"}']), {"Content-Type": "application/json"}, encode_chunked=True)
    response = connection.getresponse()
    expect("a long chunked body", response.status == 413 and "error" in json.loads(response.read()))
    connection.request("POST", "/v1/completions", json.dumps(hello), {"Content-Type": "application/json"})
    expect("the connection goes on", connection.getresponse().status == 200)
    for junk in (b"\r\n\r\n", b"GET\r\n\r\n", b"\x00" * 100 + b"\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n{}"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=300) as client:
            client.sendall(junk)
            with contextlib.suppress(ConnectionError):  # the server may have closed it already
                client.shutdown(socket.SHUT_WR)
                while client.recv(4096):
                    pass
    expect("junk does no harm", server.ask("/health") == (200, {"status": "ok"}))


def old_clients(server):
    """A client of HTTP/1.0 reads a stream up to the end of the connection: it knows no chunks."""
    body = json.dumps({"prompt": "Hello", "max_tokens": 3, "stream": True}).encode()
    for header in (b"", b"Connection: keep-alive\r\n"):
        head, _, events = answers_to(server, b"POST /v1/completions HTTP/1.0\r\n" + header + b"Content-Type: application/json\r\nContent-Length: " +
                                     str(len(body)).encode() + b"\r\n\r\n" + body).partition(b"\r\n\r\n")
        expect("no chunks", b" 200 " in head and b"Transfer-Encoding" not in head and b"\r\nConnection: close" in head and b"Keep-Alive" not in head, head)
        expect("the events alone", events.startswith(b"data: {") and events.endswith(b"\n\ndata: [DONE]\n\n"), events)


def idlers(folder):
    """200 connections that wait, in all states, delay nobody: they are all still open when others have been answered."""
    with Server(folder, "--connections", 220) as server:
        hello = ("/v1/completions", {"prompt": "Hello", "max_tokens": 5})
        alone = server.ask(*hello)[1]["choices"]
        idle = []
        for i in range(200):
            idle.append(socket.create_connection(("127.0.0.1", server.port), timeout=300))
            if i % 4 == 1:  # after an answer
                idle[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = b""
                while b'{"status":"ok"}' not in answer:
                    answer += idle[-1].recv(4096)
            elif i % 4 == 2:
                idle[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nHost: loc")
            elif i % 4 == 3:
                idle[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        slow = [server.open_request({"stream": True, "prompt": [3 + i, 4], "max_tokens": 100, "logprobs": 20, "n": 4}) for i in range(8)]
        expect("others are answered", all(server.ask(*hello)[1]["choices"] == alone for _ in range(10)))
        expect("and 200 still wait", all(is_open(client) for client in idle), sum(is_open(client) for client in idle))
        last = []
        server.wait_for("220 are accepted", lambda: last.extend(server.hold(13 - len(last))) or len(last) >= 12)
        expect("and no more", len(last) == 12, len(last))
        refused(server, "one above the limit", 503, path="/v1/models", code="overloaded")
        for client in [*slow, *last, *idle[50:]]:
            client.close()
        server.wait_for("there is room again", lambda: server.ask("/v1/models")[0] == 200)
        server.process.send_signal(signal.SIGTERM)
        expect("idle connections do not hold up the end", server.process.wait(300) == 0)


def limits(folder):
    """Heads and idle connections have limits of size and time, each on a server without the others."""
    head = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
    body = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    with Server(folder) as server:
        for what, sent, status in (("many headers", head + b"".join(b"X-%d: a\r\n" % i for i in range(100000)), b"431"),
                                   ("a long header", head + b"X: " + b"a" * 10**7, b"431"),
                                   ("a long path", b"GET /" + b"a" * 10000 + b" HTTP/1.1\r\n\r\n", b"414"),
                                   ("a body that is not worth reading", body + b"100000000000\r\n\r\n{", b"413"),
                                   ("a request to nowhere", body.replace(b"/v1/completions", b"/nowhere") + b"100000000000\r\n\r\n{", b"404")):
            answer = answers_to(server, sent)
            expect(what, answer.startswith(b"HTTP/1.1 " + status + b" "), answer)
        expect("others are answered", server.ask("/health")[0] == 200)
    with Server(folder, "--idle", 1) as server:
        expect("an idle connection is closed", answers_to(server, b"") == b"")
    with Server(folder, "--stall", 1) as server:
        for what, sent in (("a slow head", head), ("a slow body", body + b"100\r\n\r\n{")):
            answer = answers_to(server, sent)
            expect(what, answer.startswith(b"HTTP/1.1 408 " if sent is head else b"HTTP/1.1 4"), answer)
        expect("others are answered after them", server.ask("/health")[0] == 200)


def stops(folder):
    """A request whose body is on its way when the server stops is told so: it is not the client's fault."""
    with Server(folder) as server, socket.create_connection(("127.0.0.1", server.port), timeout=300) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
        begun = client.recv(4096)
        expect("the body is waited for", begun.startswith(b"HTTP/1.1 100 "), begun)
        client.sendall(b"{")
        server.process.send_signal(signal.SIGTERM)
        answer = b""
        while more := client.recv(4096):
            answer += more
        expect("503", answer.startswith(b"HTTP/1.1 503 ") and b'"code":"stopping"' in answer, answer)
        expect("exit code 0", server.process.wait(300) == 0, server.process.returncode)


def small_stack(folder):
    """Where the system's threads have small stacks, long requests end in an error and not the server."""
    limits = resource.getrlimit(resource.RLIMIT_STACK)
    try:
        resource.setrlimit(resource.RLIMIT_STACK, (2 << 20, limits[1]))
        with Server(folder) as server:
            for request in (b"GET /" + b"a" * 1000, b"GET /v1/models/" + b"b" * 1000, b"GET /" + b"a" * 8100):
                for header in (b"", b"Range: bytes=" + b"0-1," * 1000 + b"0-1\r\n", b"Content-Type: multipart/form-data; boundary=" + b"x" * 60 + b"\r\n"):
                    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as client:
                        client.sendall(request + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + header + b"\r\n")
                        expect("an answer", client.recv(4096).startswith(b"HTTP/1.1 4"), request[:20])
            expect("it runs", server.ask("/health")[0] == 200)
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, limits)


def memory():
    """Of a client without the key nothing is kept, whatever it sends."""
    with Server(LLAMA, env={"WEFT_API_KEY": "secret"}) as server:
        begin, client = resident(server.process), socket.create_connection(("127.0.0.1", server.port), timeout=300)
        with contextlib.suppress(OSError):  # a chunk's length that never ends, without the key
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(100):
                client.sendall(b"1" * (1 << 20))
        client.close()
        expect("nothing is kept of it", resident(server.process) < begin + 60, (begin, resident(server.process)))
        expect("others are answered", server.ask("/health")[0] == 200)


with Server(LLAMA, "--max-body", 150000) as one:
    framing(one)
    old_clients(one)
idlers(LLAMA)
limits(LLAMA)
stops(LLAMA)
small_stack(LLAMA)
memory()
finish()
