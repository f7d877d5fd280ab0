"""weft serve: completions, chats, streams, errors, clients that leave, many at once, the end. Only 127.0.0.1."""
import contextlib
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from checks import expect, finish
from serving import Server, refused

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
LLAMA = source / "tests/golden/models/llama"
TEMPLATE = ("{% for m in messages %}{% if m.role == 'bad' %}{{ raise_exception('no such role: bad') }}{% endif %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
            "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}{% if add_generation_prompt %}[assistant] {% endif %}")
LONG = {"prompt": [5, 6, 7], "max_tokens": 240, "n": 1024, "temperature": 1, "seed": 1}  # much more than the tests wait for


def completions(server):
    status, one = server.ask("/v1/completions", {"prompt": "Hello", "max_tokens": 8, "logprobs": 0})
    choice = one["choices"][0]
    expect("a completion", status == 200 and one["object"] == "text_completion" and choice["finish_reason"] == "length" and one["model"] == "llama", one)
    expect("usage", one["usage"]["completion_tokens"] == 8 and one["usage"]["total_tokens"] == one["usage"]["prompt_tokens"] + 8, one["usage"])
    made = json.loads(subprocess.run([tool, "generate", str(LLAMA), "Hello", "--max-tokens", "8", "--logprobs", "--json"], capture_output=True, text=True).stdout)
    expect("the text of weft generate", choice["text"] == made["text"], (choice, made))
    expect("the log-probabilities of weft generate", choice["logprobs"]["token_logprobs"] == [float(json.dumps(x)) for x in bits(made["logprobs"])], made)
    ids = made["prompt_ids"]
    for prompt in (ids, [ids], ["Hello"]):
        expect(f"prompt {prompt}", server.ask("/v1/completions", {"prompt": prompt, "max_tokens": 8})[1]["choices"][0]["text"] == choice["text"])
    both = server.ask("/v1/completions", {"prompt": ["Hello", "World"], "max_tokens": 4, "n": 2, "temperature": 1, "seed": 3})[1]
    texts = [c["text"] for c in both["choices"]]
    expect("two prompts, twice each", [c["index"] for c in both["choices"]] == [0, 1, 2, 3] and texts[0] != texts[1] and texts[2] != texts[3], texts)
    expect("a seed repeats", texts == [c["text"] for c in server.ask("/v1/completions", {"prompt": ["Hello", "World"], "max_tokens": 4, "n": 2, "temperature": 1, "seed": 3})[1]["choices"]])
    free = server.ask("/v1/completions", {"prompt": "Hello", "max_tokens": 8, "temperature": 1})[1]
    again = server.ask("/v1/completions", {"prompt": "Hello", "max_tokens": 8, "temperature": 1, "seed": free["seed"]})[1]
    expect("the seed of an answer repeats it", free["choices"] == again["choices"], (free, again))
    stop = choice["text"][3:6]
    cut = server.ask("/v1/completions", {"prompt": "Hello", "max_tokens": 8, "stop": stop})[1]["choices"][0]
    expect("a stop string", cut["text"] == choice["text"][:choice["text"].index(stop)] and cut["finish_reason"] == "stop", (stop, cut))


def bits(values):
    """The floats that the shortest texts of weft generate stand for, as the doubles that the server prints."""
    import struct
    return [struct.unpack("f", struct.pack("f", x))[0] for x in values]


def echo(server):
    request = {"prompt": "Hello World", "max_tokens": 3, "echo": True, "logprobs": 2}
    one = server.ask("/v1/completions", request)[1]
    choice, lists = one["choices"][0], one["choices"][0]["logprobs"]
    count = one["usage"]["prompt_tokens"] + 3
    expect("echo", choice["text"].startswith("Hello World") and all(len(lists[key]) == count for key in lists), choice)
    expect("the first token has none", lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None and all(x < 0 for x in lists["token_logprobs"][1:]))
    expect("the most likely", all(max(top.values()) >= value and len(top) in (2, 3) for top, value in zip(lists["top_logprobs"][1:], lists["token_logprobs"][1:])))
    parts = [choice["text"][a:b] for a, b in zip(lists["text_offset"], [*lists["text_offset"][1:], None])]
    expect("offsets", "".join(parts) == choice["text"] and all(part.strip() == token.strip() for part, token in zip(parts, lists["tokens"]) if not token.startswith("bytes:")),
           lists)
    plain = server.ask("/v1/completions", {**request, "logprobs": 0})[1]["choices"][0]["logprobs"]
    expect("score() has the same bits", plain["token_logprobs"] == lists["token_logprobs"] and plain["top_logprobs"] is None, plain)
    only = server.ask("/v1/completions", {**request, "max_tokens": 0})[1]["choices"][0]
    expect("the prompt alone", only["text"] == "Hello World" and only["logprobs"]["token_logprobs"] == lists["token_logprobs"][:-3], only)
    fed = server.ask("/v1/completions", {"prompt": choice["text"], "max_tokens": 0, "echo": True, "logprobs": 0})[1]["choices"][0]["logprobs"]
    if fed["tokens"] == lists["tokens"]:  # the text may be cut into tokens in another way
        expect("new tokens as a prompt have the same bits", fed["token_logprobs"] == lists["token_logprobs"])


def chats(server):
    talk = [{"role": "user", "content": "Hello"}]
    request = {"messages": talk, "max_completion_tokens": 6, "logprobs": True, "top_logprobs": 2}
    status, one = server.ask("/v1/chat/completions", request)
    choice = one["choices"][0]
    content = choice["logprobs"]["content"]
    expect("a chat", status == 200 and one["object"] == "chat.completion" and choice["message"]["role"] == "assistant", one)
    expect("its log-probabilities", len(content) == one["usage"]["completion_tokens"] and all(len(t["top_logprobs"]) == 2 for t in content), content)
    text = "[user] Hello\n[assistant] "
    tokens = server.ask("/tokenize", {"messages": talk})[1]
    expect("/tokenize", tokens["tokens"] == server.ask("/tokenize", {"text": text, "add_special_tokens": False})[1]["tokens"] and
           tokens["count"] == one["usage"]["prompt_tokens"] == len(tokens["tokens"]), tokens)
    same = server.ask("/v1/completions", {"prompt": tokens["tokens"], "max_tokens": 6})[1]["choices"][0]
    expect("the template", same["text"].strip() == choice["message"]["content"].strip(), (same, choice))
    parts = server.ask("/v1/chat/completions", {**request, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}]})[1]
    expect("parts of a content", parts["choices"] == one["choices"])
    tools = server.ask("/v1/chat/completions", {**request, "tools": [{"type": "function", "function": {"name": "f"}}]})[1]
    expect("tools reach the template", tools["usage"]["prompt_tokens"] > one["usage"]["prompt_tokens"])
    events = server.events("/v1/chat/completions", {**request, "n": 2, "stream_options": {"include_usage": True}})
    expect("the first events have roles", [e["choices"][0]["delta"].get("role") for e in events[:2]] == ["assistant"] * 2, events[:2])
    streamed = "".join(e["choices"][0]["delta"].get("content", "") for e in events[:-1] if e["choices"][0]["index"] == 0)
    expect("a stream has the same text", streamed == choice["message"]["content"], (streamed, choice))
    values = [t for e in events[:-1] if e["choices"][0]["index"] == 0 and e["choices"][0]["logprobs"] for t in e["choices"][0]["logprobs"]["content"]]
    expect("and the same log-probabilities", values == content)
    expect("usage comes last", events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == 12, events[-1])
    expect("both end", sorted(e["choices"][0]["index"] for e in events[:-1] if e["choices"][0]["finish_reason"]) == [0, 1])
    events = server.events("/v1/completions", {"prompt": "Hello", "max_tokens": 8})
    expect("a streamed completion", "".join(e["choices"][0]["text"] for e in events) == server.ask("/v1/completions", {"prompt": "Hello", "max_tokens": 8})[1]["choices"][0]["text"])


def errors(server):
    hello = {"prompt": "Hello", "max_tokens": 2}
    refused(server, "no JSON", 400, raw=b"{", code="invalid_json")
    refused(server, "deep JSON", 400, raw=b'{"prompt":' + b"[" * 50000 + b"]" * 50000 + b"}", code="invalid_json")
    refused(server, "an object of many members", 400, raw=b"{" + b",".join(b'"%d":0' % i for i in range(10000)) + b"}", path="/v1/chat/completions", code="invalid_json")
    refused(server, "invalid UTF-8", 400, raw=b'{"prompt":"\xff"}', code="invalid_json")
    refused(server, "an empty body", 400, raw=b"", code="invalid_json")
    refused(server, "a wrong value", 400, {**hello, "temperature": "hot"}, param="temperature")
    refused(server, "no prompt", 400, {}, param="prompt")
    refused(server, "ids outside the vocabulary", 400, {"prompt": [10**6]}, param="prompt")
    refused(server, "an empty prompt", 400, {"prompt": [[]]}, param="prompt")
    refused(server, "too many tokens", 400, {**hello, "max_tokens": 1000}, code="context_length_exceeded", param="max_tokens")
    refused(server, "a long prompt", 400, {"prompt": [1] * 300}, code="context_length_exceeded")
    refused(server, "a full context", 400, {"prompt": [1] * 256}, code="context_length_exceeded", param="prompt")
    refused(server, "another model", 404, {**hello, "model": "gpt"}, code="model_not_found", param="model")
    refused(server, "a template that refuses", 400, {"messages": [{"role": "bad", "content": ""}]}, path="/v1/chat/completions")
    refused(server, "a long chat", 400, {"messages": [{"role": "user", "content": "a" * 1000}]}, path="/v1/chat/completions", code="context_length_exceeded", param="messages")
    refused(server, "an image", 400, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, path="/v1/chat/completions",
            param="messages.0.content")
    refused(server, "no such path", 404, path="/v1/nothing", code="unknown_url")
    refused(server, "no such model", 404, path="/v1/models/gpt", code="model_not_found")
    expect("one model", server.ask("/v1/models/llama")[1] == server.ask("/v1/models")[1]["data"][0])
    refused(server, "GET of a POST", 404, path="/v1/completions")
    refused(server, "another type", 415, hello, headers={"Content-Type": "text/plain"})
    refused(server, "a long stop string", 400, {**hello, "stop": "a" * 2000}, param="stop")
    refused(server, "more log-probabilities than fit", 400, {"prompt": [5], "max_tokens": 200, "n": 128, "logprobs": 20}, param="logprobs")
    for host in ("attacker.example", "127.0.0.1.attacker.example:80"):
        refused(server, "another host", 403, hello, headers={"Host": host}, code="forbidden_host")
    status, page = server.ask("/")
    expect("the chat page", status == 200 and "<!doctype html>" in page and not re.search(r"(src|href)=[\"']?(https?:)?//", page), page[:200])
    connection = server.connect()
    for method in ("GET", "OPTIONS"):
        connection.request(method, "/v1/models", headers={"Origin": "http://attacker.example"})
        response = connection.getresponse()
        response.read()
        expect("CORS is off", response.getheader("Access-Control-Allow-Origin") is None, response.getheaders())
    connection.close()


def leaving(server):
    """Clients that leave: their sequences are removed, whether they wait, stream or only wait for the whole answer."""
    begun = server.metric("weft_requests_aborted_total")
    for stream in (True, False):
        client = server.open_request({**LONG, "stream": stream})
        server.wait_for("a long request runs", lambda: server.metric("weft_sequences_waiting") > 100)
        client.close()
        server.wait_for("it is removed", lambda: server.metric("weft_sequences_running") + server.metric("weft_sequences_waiting") == 0)
    expect("they are counted", server.metric("weft_requests_aborted_total") >= begun + 2)
    expect("others are answered", server.ask("/v1/completions", {"prompt": "Hello", "max_tokens": 1})[0] == 200)


def behind(server):
    """A stream of which too much is unread ends; what its reader takes then is in order and ends with the error."""
    made = server.metric("weft_new_tokens_total")
    client = server.open_request(LONG | {"stream": True, "logprobs": 20})
    server.wait_for("a long stream runs", lambda: server.metric("weft_sequences_waiting") > 100)
    server.wait_for("it is removed", lambda: server.metric("weft_sequences_running") + server.metric("weft_sequences_waiting") == 0)
    made = server.metric("weft_new_tokens_total") - made
    expect("long before its end", made < LONG["max_tokens"] * LONG["n"] / 2, made)
    text = bytearray()
    while not text.endswith(b"0\r\n\r\n") and (more := client.recv(65536)):
        text += more
    client.close()
    expect("all that was made is sent", text.count(b'data: {"id"') == made >= 2**18 / 21, (text.count(b"data: "), made))
    expect("and an error", b'"code":"slow_reader"' in text[-400:] and b"[DONE]" not in text, text[-400:])


def crowd(server):
    """Alone and among others, slow readers and idle connections too: the same bits."""
    asked = [("/v1/completions", {"prompt": "Hello World", "max_tokens": 40, "logprobs": 3, "temperature": 0.8, "seed": 5, "n": 2}),
             ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 30, "logprobs": True, "top_logprobs": 3}),
             ("/v1/completions", {"prompt": list(range(3, 200)), "max_tokens": 20, "logprobs": 1, "echo": True})]
    alone = [server.ask(*one)[1]["choices"] for one in asked]
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    busy = server.open_request(LONG | {"prompt": [9, 9]})  # until it is closed
    slow = [server.open_request({"stream": True, "prompt": [3 + i, 4], "max_tokens": 200, "n": 4, "logprobs": 20, "temperature": 1, "seed": i}) for i in range(8)]
    server.wait_for("they run", lambda: server.metric("weft_sequences_running") > 1)
    among = [None] * 6
    def send(i):
        among[i] = server.ask(*asked[i % 3])[1].get("choices")
    threads = [threading.Thread(target=send, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect("others were computed all the time", server.metric("weft_sequences_waiting") > 100, server.metric("weft_sequences_waiting"))
    expect("the same answers among others, to the bit", among == alone * 2, "")
    busy.close()
    server.wait_for("the slow ones are computed", lambda: server.metric("weft_sequences_running") + server.metric("weft_sequences_waiting") == 0)
    text = b""
    while not text.endswith(b"0\r\n\r\n") and (more := slow[0].recv(65536)):
        text += more
    expect("a slow reader gets all", text.count(b'"finish_reason":"length"') == 4 and b"[DONE]" in text, text[-100:])
    for client in [*slow, *idle]:
        client.close()


def queue(folder):
    """At most --sequences and --queue requests, of however many sequences; those whose clients leave make room at once."""
    with Server(folder, "--sequences", 1, "--queue", 2) as server:
        first = server.open_request(LONG)
        server.wait_for("a long request runs", lambda: server.metric("weft_sequences_waiting") > 100)
        hello = {"prompt": "Hello", "max_tokens": 5}
        expect("its many sequences leave room", server.ask("/v1/completions", hello)[0] == 200)
        admitted = server.metric("weft_prompt_tokens_total")
        waits = [server.open_request(LONG), server.open_request({"prompt": list(range(3, 100)), "max_tokens": 1, "echo": True, "logprobs": 1, "n": 1024})]
        server.wait_for("two more are admitted", lambda: server.metric("weft_prompt_tokens_total") == admitted + 3 + 97)
        refused(server, "the queue is full", 429, hello, code="queue_full")
        for client in waits:
            client.close()
        server.wait_for("they leave and make room", lambda: server.ask("/v1/completions", hello)[0] == 200)
        expect("before the first ends", server.metric("weft_sequences_waiting") > 100, server.metric("weft_sequences_waiting"))
        first.close()


def turns(folder):
    """A request of many sequences shares the batch with a later one."""
    with Server(folder, "--sequences", 2) as server:
        client = server.open_request(LONG)
        server.wait_for("a long request runs", lambda: server.metric("weft_sequences_waiting") > 100)
        expect("a later one is answered", server.ask("/v1/completions", {"prompt": "Hello", "max_tokens": 5})[0] == 200)
        expect("before the long one ends", server.metric("weft_sequences_waiting") > 100, server.metric("weft_sequences_waiting"))
        client.close()


def ends(folder):
    """SIGTERM finishes what runs; a second server has a key, few connections and a short time."""
    with Server(folder, "--queue", 100) as server:
        client = server.open_request({"stream": True, "prompt": "Hello", "max_tokens": 200, "n": 8, "logprobs": 1})
        text = client.recv(4096)
        server.process.send_signal(signal.SIGTERM)
        while more := client.recv(65536):
            text += more
        expect("a stream is finished after SIGTERM", text.count(b'"finish_reason":"length"') == 8 and text.endswith(b"0\r\n\r\n"), text[-200:])
        expect("exit code 0", server.process.wait(300) == 0, server.process.returncode)
    environment = {"WEFT_API_KEY": "secret"}
    with Server(LLAMA, "--connections", 16, "--timeout", 0.3, "--queue", 2000, "--name", "mine", env=environment) as server:
        key = {"Authorization": "Bearer secret"}
        refused(server, "no key", 401, {"prompt": "Hello"}, code="invalid_api_key")
        refused(server, "a wrong key", 401, {"prompt": "Hello"}, headers={"Authorization": "Bearer secre"}, code="invalid_api_key")
        expect("the key", server.ask("/v1/models", headers=key)[1]["data"][0]["id"] == "mine")
        expect("health needs none", server.ask("/health")[0] == 200 and server.ask("/")[0] == 200)
        refused(server, "no chat template", 400, {"messages": [{"role": "user", "content": "a"}]}, path="/v1/chat/completions", headers=key)
        refused(server, "too long", 504, LONG, headers=key, code="timeout")
        held = []
        server.wait_for("16 connections", lambda: held.extend(server.hold(16 - len(held))) or len(held) == 16)
        refused(server, "too many connections", 503, path="/v1/models", headers=key, code="overloaded")
        connection = server.connect()
        connection.request("GET", "/health")
        answer = connection.getresponse()
        expect("a refused connection ends", answer.status == 503 and answer.getheader("Connection") == "close", (answer.status, answer.headers))
        connection.close()
        for client in held:
            client.close()
        server.process.send_signal(signal.SIGINT)
        expect("exit code 0 after Ctrl-C", server.process.wait(300) == 0, server.process.returncode)


def gives_up(folder):
    """A request that is not finished --grace seconds after SIGTERM, or at a second one, is given up."""
    for args in (("--grace", 1), ()):
        with Server(folder, *args) as server:
            client = server.open_request(LONG)
            server.wait_for("a long request runs", lambda: server.metric("weft_sequences_waiting") > 100)
            server.process.send_signal(signal.SIGTERM)
            if not args:
                server.wait_for("nobody can connect", lambda: not server.accepts())
                server.process.send_signal(signal.SIGTERM)
            answer = b""
            with contextlib.suppress(ConnectionError):
                answer = client.recv(4096)
            expect("it has no answer but an error", answer == b"" or answer.startswith(b"HTTP/1.1 503 "), answer)
            expect(f"exit code 0 after {args or 'two signals'}", server.process.wait(300) == 0, server.process.returncode)


def talks(folder):
    """A model trained here to answer: questions at once, each answered to the end of its turn."""
    answers = {"What is your name?": "I am Weft.", "Say hello.": "Hello there!", "What do you do?": "I run transformers.", "Is it late?": "No, it is early."}
    data = folder / "talk.jsonl"
    data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}) + "\n" for q, a in answers.items()) * 40)
    subprocess.run([tool, "train", "--data", data, "--chat-template", "chatml", "--packing", "concatenate", "--vocabulary", "bytes", "--width", "64", "--layers",
                    "2", "--heads", "4", "--sequence", "96", "--context", "192", "--batch", "8", "--validation", "0", "--learning-rate", "0.004", "--warmup", "10",
                    "--evaluate-every", "0", "--steps", "200", "--out", folder / "run"], check=True, capture_output=True)
    got = []
    with Server(folder / "run/model", "--sequences", 3) as server:
        def send(question):
            got.append((question, server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": question}]})[1]["choices"][0]))
        threads = [threading.Thread(target=send, args=(question,)) for question in list(answers) * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        events = server.events("/v1/chat/completions", {"messages": [{"role": "user", "content": "Say hello."}]})
        call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}
        status, one = server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "Say hello."}, call, {"role": "tool", "content": "1"}], "max_tokens": 2})
        expect("a call without a text", status == 200, one)
    expect("questions are answered", len(got) == 16 and all(one["message"]["content"] == answers[q] and one["finish_reason"] == "stop" for q, one in got), got)
    expect("a stream ends with the turn", "".join(e["choices"][0]["delta"].get("content", "") for e in events) == "Hello there!" and
           events[-1]["choices"][0]["finish_reason"] == "stop", events[-1])


def gguf(folder):
    """A GGUF file has the answers of the folder it was made of, with its chat template."""
    file = folder.parent / "model.gguf"
    subprocess.run([tool, "export", folder, file], check=True, capture_output=True)
    asked = [("/v1/completions", {"prompt": "Hello World", "max_tokens": 12, "logprobs": 2}),
             ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12, "logprobs": True})]
    answers = []
    for model in (folder, file):
        with Server(model, "--name", "same") as server:
            answers.append([server.ask(*one)[1].get("choices") for one in asked])
            refused(server, "a template that refuses", 400, {"messages": [{"role": "bad", "content": "a"}]}, path="/v1/chat/completions")
    expect("the same answers from a GGUF file", answers[0] == answers[1] and None not in answers[0], answers)


def without_tokenizer(folder):
    shutil.copytree(LLAMA, folder, ignore=lambda *_: ["tokenizer.json", "tokenizer_config.json"])
    with Server(folder) as server:
        one = server.ask("/v1/completions", {"prompt": [5, 6], "max_tokens": 3, "logprobs": 0, "echo": True})[1]["choices"][0]
        expect("token ids alone", one["text"] == "" and one["logprobs"]["tokens"][:2] == ["5", "6"] and len(one["logprobs"]["tokens"]) == 5, one)
        refused(server, "a text", 400, {"prompt": "a"}, param="prompt")
        refused(server, "a stop string", 400, {"prompt": [5], "stop": "a"}, param="stop")
        refused(server, "a text to tokenize", 400, {"text": "a"}, path="/tokenize")


def usage():
    for args, words in ((["--port", "99999"], "--port"), (["--sequences", "0"], "--sequences"), (["--host", "203.0.113.1"], "203.0.113.1")):
        done = subprocess.run([tool, "serve", str(LLAMA), *args], capture_output=True, text=True, timeout=300)
        expect(f"{args} is refused", done.returncode == 2 and words in done.stderr, done.stderr)


with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary) / "private" / "llama"
    shutil.copytree(LLAMA, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    usage()
    with Server(folder, "--sequences", 4, "--queue", 500, "--max-body", 150000) as server:
        for test in (completions, echo, chats, errors, leaving, behind, crowd):
            begin = time.time()
            test(server)
            print(f"{test.__name__}: {time.time() - begin:.1f} s")
    queue(folder)
    turns(folder)
    talks(pathlib.Path(temporary))
    gguf(folder)
    without_tokenizer(pathlib.Path(temporary) / "private" / "bare")
    ends(folder)
    gives_up(folder)
finish()
