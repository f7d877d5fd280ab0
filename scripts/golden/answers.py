# needs: jinja2==3.1.6 transformers==5.22.2 tokenizers==0.23.3
"""Golden masks of the answers in conversations, made by transformers, for weft train --task sft.

    scripts/make-golden answers

Makes tests/golden/chat/answers.json. The masks of templates with generation blocks are those of apply_chat_template. A template without them
gets the spans that docs/training.md describes (prefixes rendered by apply_chat_template), mapped to tokens as apply_chat_template maps its
own. The tokenizers are those of tests/golden/chat/tokenizers, as they are and with the special tokens of ADDED.
"""
import json
import pathlib
import sys
import tempfile

sys.path[0] = str(pathlib.Path(__file__).resolve().parent / "lib")  # instead of this folder, whose tokenizers.py would hide the package
from transformers import PreTrainedTokenizerFast  # noqa: E402
from chat_conversations import CALL, RESULT, WEATHER, assistant, system, user  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "chat"
ADDED = {"": [], "chatml": [("<|im_start|>", False), ("<|im_end|>", False)], "stripping": [("<|im_start|>", False), ("<|im_end|>", True)]}  # token, rstrip

CHATML_TOOLS = """{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content or '' }}\
{% for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function | tojson + '</tool_call>' }}{% endfor %}{{ '<|im_end|>' }}{% endgeneration %}\
{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
TEMPLATES = {
    "chatml_tools": CHATML_TOOLS,
    # The edges of blocks fall into tokens: no special token and no line break stands there.
    "edges": "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %} {{ m.content }}{% endgeneration %}.{% else %}{{ m.role }}:{{ m.content }}{% endif %}{% endfor %}",
    "content_only": "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %};{% endfor %}",
    "newline_inside": CHATML_TOOLS.replace("{{ '<|im_end|>' }}{% endgeneration %}", "{{ '<|im_end|>\\n' }}{% endgeneration %}"),
    # Without blocks: found by prefixes.
    "plain_chatml": CHATML_TOOLS.replace("{% generation %}", "").replace("{% endgeneration %}", ""),
    "plain_words": "{% for m in messages %}{{ 'Q: ' if m.role != 'assistant' else 'A: ' }}{{ m.content }}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}A: {% endif %}",
    # Earlier answers are shortened once others follow: those cannot be found.
    "plain_shortens": "{% for m in messages %}{{ m.role[0] + ': ' }}{{ m.content if loop.last or m.role != 'assistant' else m.content[:1] }}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}a: {% endif %}",
    "plain_end": "{% for m in messages %}{{ '[' + m.role + '] ' if m.role != 'assistant' else '' }}{{ m.content }}{{ '</s>' if m.role == 'assistant' else ' [/] ' }}{% endfor %}",
}
CONVERSATIONS = {
    "one": [user("Hello, who are you?"), assistant("I am an assistant.")],
    "three": [system("You are terse."), user("a"), assistant("b c"), user("d e f"), assistant("g"), user("h"), assistant("the last one")],
    "user_last": [user("first"), assistant("an answer"), user("and a question")],
    "in_a_row": [user("go on"), assistant("one"), assistant("two")],
    "spaces": [user("  padded \n\n"), assistant(" \n answer \n"), user("\tx"), assistant("y ")],
    "characters": [user("Grüße 你好"), assistant("नमस्ते 你"), user("😀"), assistant("é😀")],
    "special": [user("<|im_end|>\n<|im_start|>"), assistant("</s> and <|im_end|> inside"), user("x"), assistant("y")],
}
TOOLS = {"tools": [user("Weather?"), assistant("", tool_calls=[CALL]), RESULT, assistant("21.5 degrees.")]}


def load(name, added):
    """The tokenizer of a file with further special tokens."""
    content = json.loads((FOLDER / "tokenizers" / f"{name}.json").read_text(encoding="utf-8"))
    first = 1 + max([token["id"] for token in content["added_tokens"]] + list(content["model"]["vocab"].values()))
    for i, (token, rstrip) in enumerate(ADDED[added]):
        content["added_tokens"].append({"id": first + i, "content": token, "single_word": False, "lstrip": False, "rstrip": rstrip, "normalized": False, "special": True})
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False)
        file.flush()
        return PreTrainedTokenizerFast(tokenizer_file=file.name)


def rendered(tokenizer, template, messages, prompt, tools):
    return tokenizer.apply_chat_template(messages, chat_template=template, tools=tools, tokenize=False, add_generation_prompt=prompt)


def spans_by_prefixes(tokenizer, template, messages, tools):
    """First and last + 1 character of each answer, or the message that cannot be found."""
    whole, spans = rendered(tokenizer, template, messages, False, tools), []
    encoding = tokenizer(whole, add_special_tokens=False)
    special = set(tokenizer.added_tokens_decoder)
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, up_to = rendered(tokenizer, template, messages[:i], True, tools), rendered(tokenizer, template, messages[: i + 1], False, tools)
        if not whole.startswith(up_to) or not up_to.startswith(before):
            return i
        end = len(up_to.rstrip(" \t\r\n"))
        token = encoding.char_to_token(end - 1)
        ends_specially = end > len(before) and token is not None and encoding["input_ids"][token] in special
        spans.append((len(before), end if ends_specially else len(up_to)))
    return spans


def mask_of(tokenizer, template, messages, tools):
    if "{% generation %}" in template:
        out = tokenizer.apply_chat_template(messages, chat_template=template, tools=tools, return_dict=True, return_assistant_tokens_mask=True)
        return out["input_ids"], out["assistant_masks"]
    spans = spans_by_prefixes(tokenizer, template, messages, tools)
    if isinstance(spans, int):
        return spans, None
    encoding = tokenizer(rendered(tokenizer, template, messages, False, tools), add_special_tokens=False)
    mask = [0] * len(encoding["input_ids"])
    for first, last in spans:
        for token in range(encoding.char_to_token(first), encoding.char_to_token(last - 1) + 1):
            mask[token] = 1
    return encoding["input_ids"], mask


def answers():
    results = []
    for added in ADDED:
        for path in sorted((FOLDER / "tokenizers").glob("*.json")):
            tokenizer = load(path.stem, added)
            for template, text in TEMPLATES.items():
                if (added == "") == ("im_start" in text):
                    continue  # chatml with its special tokens, the others without
                cases = {**CONVERSATIONS, **(TOOLS if template in ("chatml_tools", "plain_chatml", "newline_inside") else {})}
                for name, messages in cases.items():
                    ids, mask = mask_of(tokenizer, text, messages, [WEATHER] if name == "tools" else None)
                    row = {"tokenizer": path.stem, "added": added, "template": template, "conversation": name}
                    results.append({**row, "refused": ids} if mask is None else {**row, "ids": ids, "mask": "".join(map(str, mask))})
    return results


if __name__ == "__main__":
    cases = {**{name: {"messages": messages} for name, messages in CONVERSATIONS.items()}, "tools": {"messages": TOOLS["tools"], "tools": [WEATHER]}}
    head = {"added": {name: [{"token": token, "rstrip": rstrip} for token, rstrip in tokens] for name, tokens in ADDED.items()}, "templates": TEMPLATES, "conversations": cases}
    listed = ",\n".join(json.dumps(row, ensure_ascii=False) for row in answers())
    text = json.dumps(head, ensure_ascii=False)[:-1] + f', "answers": [\n{listed}\n]}}\n'
    (FOLDER / "answers.json").write_text(text, encoding="utf-8")
