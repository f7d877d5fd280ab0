# needs: jinja2==3.1.6 transformers==5.22.2 tokenizers==0.23.3
"""Golden renderings of chat templates, made by jinja2 as transformers sets it up.

    scripts/make-golden templates

tests/golden/chat/templates/*.jinja are written by hand for these tests, in the styles of common models. This makes renderings.json (each
template over the conversations of lib/chat_conversations.py), snippets.json (small templates, by hand and random) and masks.json (ids and
assistant masks of generation.jinja with tests/golden/chat/tokenizers: byte-level BPE, and SentencePiece's kind with and without bytes for
unknown characters, as scripts/golden/tokenizers.py trains them; copies, so that new ones do not change these results).
"""
import json
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parent / "lib")  # instead of this folder, whose tokenizers.py would hide the package
import chat_reference  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
import chat_snippets  # noqa: E402
from chat_conversations import conversations  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "chat"
RANDOM_SNIPPETS, RANDOM_PROGRAMS = 400, 40
MASKED = ["turns", "system_turns", "ends_with_assistant", "spaces", "unicode", "control_tokens", "reasoning", "null_content", "long"]


def expected(result):
    """A text, or how it fails: the message of raise_exception, or none."""
    return {"text": result["text"]} if "text" in result else {"raised": result["raised"]}


def renderings():
    cases = dict(conversations())
    results = []
    for path in sorted((FOLDER / "templates").glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        for name, conversation in cases.items():
            for prompt in (False, True):
                result = chat_reference.by_transformers(template, conversation, prompt)
                results.append({"template": path.stem, "conversation": name, "prompt": prompt, **expected(result)})
    return {"time": chat_reference.NOW, "special_tokens": chat_reference.TOKENS, "conversations": cases, "renderings": results}


def snippets():
    results = []
    templates = chat_snippets.by_hand() + chat_snippets.random_snippets(2026, RANDOM_SNIPPETS)
    for snippet in templates + chat_snippets.random_programs(2026, RANDOM_PROGRAMS):
        result = chat_reference.by_jinja(snippet, chat_snippets.VARIABLES)
        if not chat_reference.ADDRESSES.search(result.get("text", "")):
            results.append({"template": snippet, **expected(result)})
    return {"time": chat_reference.NOW, "variables": chat_snippets.VARIABLES, "snippets": results}


def masks():
    cases, results = dict(conversations()), []
    template = (FOLDER / "templates" / "generation.jinja").read_text(encoding="utf-8")
    for path in sorted((FOLDER / "tokenizers").glob("*.json")):
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path))
        for name in MASKED:
            out = tokenizer.apply_chat_template(cases[name]["messages"], chat_template=template, return_dict=True, return_assistant_tokens_mask=True)
            mask = "".join(str(bit) for bit in out["assistant_masks"])
            results.append({"tokenizer": path.stem, "conversation": name, "ids": out["input_ids"], "mask": mask})
    return {"masks": results}


def write(name, value, rows):
    """One result per line, so that a change shows what changed."""
    listed = ",\n".join(json.dumps(row, ensure_ascii=False) for row in value.pop(rows))
    head = json.dumps(value, ensure_ascii=False)[:-1] + (", " if value else "")
    (FOLDER / name).write_text(f'{head}"{rows}": [\n{listed}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    write("renderings.json", renderings(), "renderings")
    write("snippets.json", snippets(), "snippets")
    write("masks.json", masks(), "masks")
