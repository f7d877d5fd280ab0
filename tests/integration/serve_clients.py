"""weft serve with the clients that people use: the openai package, and lm-eval's local-completions against `weft eval --task`.
Skipped without them (PyPI: openai, lm-eval[api], transformers). Only 127.0.0.1.

    serve_clients.py TOOL SOURCE_DIR
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from checks import expect, finish, skip

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
try:
    import lm_eval
    import openai
    from lm_eval.tasks import TaskManager
except ImportError as error:
    skip(error)

tool, source = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
GOLDEN = source / "tests/golden"
TEMPLATE = ("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
            "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}{% if add_generation_prompt %}[assistant] {% endif %}")
TOOL_OF_CHAT = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
LARGEST_DIFFERENCE = 1e-5  # lm-eval prints and adds the values as doubles; weft eval's are single sums


class Server:
    def __init__(self, folder, *args):
        self.process = subprocess.Popen([tool, "serve", str(folder), "--port", "0", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+", self.process.stdout.readline())[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        expect("the server ends", self.process.wait(300) == 0)


def raises(what, kind, call):
    try:
        call()
    except kind as error:
        expect(what, error.body and error.body["message"], error)
        return error
    except openai.OpenAIError as error:
        expect(what, False, repr(error))
    else:
        expect(what, False, "no error")


def models_and_completions(client):
    model = client.models.list().data[0].id
    expect("a model", client.models.retrieve(model).id == model == "llama", model)
    one = client.completions.create(model=model, prompt="Hello", max_tokens=8, logprobs=2, seed=1)
    expect("a completion", one.choices[0].finish_reason == "length" and one.usage.completion_tokens == 8, one)
    expect("its log-probabilities", len(one.choices[0].logprobs.token_logprobs) == 8 and len(one.choices[0].logprobs.top_logprobs[0]) >= 2, one)
    pieces = list(client.completions.create(model=model, prompt="Hello", max_tokens=8, stream=True, stream_options={"include_usage": True}))
    expect("streamed", "".join(p.choices[0].text for p in pieces if p.choices) == one.choices[0].text and pieces[-1].usage.completion_tokens == 8, pieces[-1])
    many = client.completions.create(model=model, prompt=["Hello", "World"], n=2, max_tokens=4, temperature=1, seed=3)
    expect("two prompts twice", [c.index for c in many.choices] == [0, 1, 2, 3])
    ids = client.completions.create(model=model, prompt=[5, 6, 7], max_tokens=0, echo=True, logprobs=0)
    expect("the prompt's own", ids.choices[0].logprobs.token_logprobs[0] is None and len(ids.choices[0].logprobs.token_logprobs) == 3, ids)
    stop = one.choices[0].text[3:5]
    expect("stop", client.completions.create(model=model, prompt="Hello", max_tokens=8, stop=[stop]).choices[0].finish_reason == "stop")


def chats(client):
    talk = [{"role": "user", "content": "Hello"}]
    one = client.chat.completions.create(model="llama", messages=talk, max_completion_tokens=6, logprobs=True, top_logprobs=3)
    content = one.choices[0].logprobs.content
    expect("a chat", one.choices[0].message.role == "assistant" and len(content) == one.usage.completion_tokens and len(content[0].top_logprobs) == 3, one)
    pieces = list(client.chat.completions.create(model="llama", messages=talk, max_tokens=6, stream=True, stream_options={"include_usage": True}))
    expect("streamed", "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == one.choices[0].message.content, pieces)
    expect("its usage", pieces[-1].choices == [] and pieces[-1].usage == one.usage, pieces[-1])
    tools = client.chat.completions.create(model="llama", messages=talk, max_tokens=6, tools=[TOOL_OF_CHAT], tool_choice="auto")
    expect("tools", tools.usage.prompt_tokens > one.usage.prompt_tokens, tools)
    parts = client.chat.completions.create(model="llama", messages=[{"role": "user", "content": [{"type": "text", "text": "Hello"}]}], max_tokens=6)
    expect("parts", parts.choices[0].message.content == one.choices[0].message.content)
    with client.chat.completions.stream(model="llama", messages=talk, max_tokens=6) as stream:
        expect("the stream helper", "".join(event.delta for event in stream if event.type == "content.delta") == one.choices[0].message.content)
    raw = client.chat.completions.with_raw_response.create(model="llama", messages=talk, max_tokens=1)
    expect("raw", raw.status_code == 200)


def errors(client, url):
    ask = lambda **more: client.completions.create(**({"model": "llama", "prompt": "Hello", "max_tokens": 1} | more))
    raises("another model", openai.NotFoundError, lambda: ask(model="gpt-4"))
    error = raises("a wrong value", openai.BadRequestError, lambda: ask(temperature=-1))
    expect("names its parameter", error and error.param == "temperature" and error.type == "invalid_request_error", error)
    error = raises("too long", openai.BadRequestError, lambda: ask(max_tokens=10**6))
    expect("has a code", error and error.code == "context_length_exceeded", error)
    raises("response_format", openai.BadRequestError,
           lambda: client.chat.completions.create(model="llama", messages=[{"role": "user", "content": "a"}], response_format={"type": "json_object"}))
    raises("a wrong key", openai.AuthenticationError, lambda: openai.OpenAI(base_url=url, api_key="wrong", max_retries=0).models.list())


def with_lm_eval(folder):
    """Every choice's log-probability, as lm-eval sums it from echo and logprobs, and as weft eval does."""
    data, model = GOLDEN / "tasks/plain_choices.jsonl", GOLDEN / "tasks/model"
    lines = [json.loads(line) for line in data.read_text().splitlines()]
    lines = [line for line in lines if "delimiter" not in line and len(line["prompt"]) < 300]  # those that are cut to the context lose one more token in lm-eval
    (folder / "choices.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "choices.yaml").write_text(
        "task: weft_choices\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: " + str(folder / "choices.jsonl") +
        "\ntest_split: test\noutput_type: multiple_choice\ndoc_to_text: prompt\ndoc_to_choice: choices\ndoc_to_target: answer\n"
        "metric_list:\n  - metric: acc\n  - metric: acc_norm\n")
    results = folder / "weft.jsonl"
    done = subprocess.run([tool, "eval", model, "--task", folder / "choices.jsonl", "--json", "--results", results], check=True, capture_output=True, text=True)
    scores = json.loads(done.stdout)["tasks"][0]["scores"]
    ours = [json.loads(line)["log_probabilities"] for line in results.read_text().splitlines()]
    with Server(model, "--name", "model") as server:
        theirs = lm_eval.simple_evaluate(
            model="local-completions", tasks=["weft_choices"], task_manager=TaskManager(include_path=str(folder)), log_samples=True, bootstrap_iters=0,
            model_args={"model": "model", "base_url": server.url + "/v1/completions", "tokenizer": str(model), "tokenizer_backend": "huggingface", "num_concurrent": 4,
                        "max_length": 160, "add_bos_token": True})
    samples = sorted(theirs["samples"]["weft_choices"], key=lambda sample: sample["doc_id"])
    values = [[answer[0][0] for answer in sample["resps"]] for sample in samples]
    worst = max(abs(float(a) - b) for one, other in zip(values, ours) for a, b in zip(one, other))
    expect("lm-eval has the log-probabilities of weft eval", len(values) == len(ours) == len(lines) and worst <= LARGEST_DIFFERENCE, (worst, values[:2], ours[:2]))
    for score in ("acc", "acc_norm"):
        expect(f"and its {score}", abs(theirs["results"]["weft_choices"][f"{score},none"] - scores[score]["value"]) < 1e-9, (theirs["results"], scores))
    print(f"lm-eval: {len(values)} items, largest difference {worst:.1e}")


with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary) / "llama"
    shutil.copytree(GOLDEN / "models/llama", folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    os.environ["WEFT_API_KEY"] = "secret"
    with Server(folder) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="secret", max_retries=0)
        models_and_completions(client)
        chats(client)
        errors(client, server.url + "/v1")
    del os.environ["WEFT_API_KEY"]
    print(f"openai {openai.__version__}")
    with_lm_eval(pathlib.Path(temporary))
finish()
