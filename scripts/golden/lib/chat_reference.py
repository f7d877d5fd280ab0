"""Templates rendered by transformers and jinja2, and by Weft's test program; and the comparison of the results."""
import datetime
import json
import os
import re
import subprocess
import time

os.environ["TZ"] = "UTC"
time.tzset()

import jinja2  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402

NOW = 1753531200  # 2025-07-26 12:00:00 UTC
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
REFUSED = re.compile(r"^template: the template refuses this conversation \(line \d+\): (.*)$", re.DOTALL)
ADDRESSES = re.compile(r"<(generator object|built-in method|bound method|function|method|list_reverseiterator|reversed|dict_reversekeyiterator|range_iterator|jinja2|<?class)")


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


chat_template_utils.datetime = FixedTime


def failure(error):
    raised = type(error) is jinja2.exceptions.TemplateError
    return {"error": f"{type(error).__name__}: {error}", "raised": str(error) if raised else None}


def by_transformers(template, conversation, add_generation_prompt):
    """transformers' own function on one conversation."""
    variables = dict(conversation)
    try:
        rendered, _ = chat_template_utils.render_jinja_template(
            conversations=[variables.pop("messages")], tools=variables.pop("tools", None), documents=variables.pop("documents", None),
            chat_template=template, add_generation_prompt=add_generation_prompt, **{**TOKENS, **variables})
        return {"text": rendered[0]}
    except Exception as error:  # any failure of a template: jinja2's errors, TypeError, ...
        return failure(error)


def by_jinja(template, variables):
    """The same environment without a conversation."""
    try:
        return {"text": chat_template_utils._compile_jinja_template(template).render(**variables)}
    except Exception as error:
        return failure(error)


def by_weft(program, jobs):
    text = "".join(json.dumps(job, ensure_ascii=False) + "\n" for job in jobs)
    done = subprocess.run([program], input=text.encode(), stdout=subprocess.PIPE, check=True)
    results = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    assert len(results) == len(jobs), f"{len(results)} results for {len(jobs)} jobs"
    return results


def incomparable(theirs, ours):
    """What Python prints with an address in it; integers beyond 64 bits; a slice of a constant number, which jinja2 folds to undefined
    although a slice of a number is an error."""
    folded = "text" in theirs and "object cannot be sliced" in ours.get("error", "")
    return bool(ADDRESSES.search(theirs.get("text", ""))) or "64 bits" in ours.get("error", "") or folded


def difference(theirs, ours):
    """None if equal."""
    if ("text" in theirs) != ("text" in ours):
        return f"jinja2: {shown(theirs)}; weft: {shown(ours)}"
    if "text" in theirs:
        return None if theirs["text"] == ours["text"] else first_difference(theirs["text"], ours["text"])
    refused = REFUSED.match(ours["error"])
    if theirs["raised"] is not None and (not refused or refused.group(1) != theirs["raised"]):
        return f"raise_exception({theirs['raised']!r}); weft: {ours['error']}"
    if theirs["raised"] is None and refused:
        return f"jinja2: {theirs['error']}; weft: {ours['error']}"
    return None


def shown(result):
    return result["error"] if "error" in result else f"the text {result['text'][:80]!r}"


def first_difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"at character {at}: jinja2 {a[max(0, at - 30):at + 40]!r}, weft {b[max(0, at - 30):at + 40]!r}"
