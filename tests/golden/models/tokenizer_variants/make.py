"""Writes variants.json: one small tokenizer under many settings, encoded and decoded by the `tokenizers` library.

    pip install tokenizers && python make.py [SEED TEXTS OUTPUT]

Each variant is a patch (JSON pointers) of ../llama/tokenizer.json. Where `decoded` is null it is the text; where `skipped`
(decoded without special tokens) is null it is `decoded`.
"""
import json
import pathlib
import random
import sys
import unicodedata

import tokenizers

HERE = pathlib.Path(__file__).resolve().parent
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(regex=False, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(id, content, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False} | flags


def template(before, after):
    special = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    return {"type": "TemplateProcessing",
            "single": [*map(special, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(special, after)],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [id], "tokens": [name]} for name, id in (("<s>", 0), ("</s>", 1))}}


def variants(base):
    pre, norm, post = "/pre_tokenizer", "/normalizer", "/post_processor"
    specials = base["added_tokens"]
    strings = [" ".join(pair) for pair in base["model"]["merges"]]
    yield "base", {}
    yield "gpt2", {pre: byte_level(regex=True)}
    yield "gpt2_prefix_space", {pre: byte_level(regex=True, prefix=True)}
    yield "prefix_space_after_split", {pre: sequence(split(LLAMA3), byte_level(prefix=True))}
    yield "smollm_digits", {pre: sequence({"type": "Digits", "individual_digits": True}, byte_level(regex=True))}
    yield "digits_together", {pre: sequence({"type": "Digits", "individual_digits": False}, byte_level(regex=True))}
    yield "qwen_nfc", {pre: sequence(split(QWEN), byte_level()), norm: {"type": "NFC"}}
    yield "nfkc", {norm: {"type": "Sequence", "normalizers": [{"type": "NFKC"}]}}
    yield "nfd", {norm: {"type": "NFD"}}
    yield "nfkd", {norm: {"type": "NFKD"}}
    yield "gpt4o", {pre: sequence(split(GPT4O), byte_level())}
    yield "three_splits", {pre: sequence(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(r"\s?[\p{L}\p{M}]+|\s?[\p{P}\p{S}]+|\s+(?=\S)"), byte_level())}
    for behavior in ("Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        yield f"split_{behavior}", {pre: sequence(split(r"\s|\p{P}", behavior), byte_level())}
        yield f"split_{behavior}_inverted", {pre: sequence(split(r"\p{L}+", behavior, True), byte_level())}
    yield "split_on_text", {pre: sequence(split("a.", "Removed", kind="String"), byte_level())}
    yield "split_on_nothing", {pre: sequence(split("x*"), byte_level())}
    yield "ignore_merges", {"/model/ignore_merges": True, "/model/vocab/Ġspecialist": 640, "/model/vocab/hello": 641, "/model/vocab/é": 642, "/model/vocab/ĠcafÃ©": 643}
    yield "merges_as_text", {"/model/merges": strings}
    yield "bos", {post: {"type": "Sequence", "processors": [byte_level(), template(["<s>"], [])]}}
    yield "bos_and_eos", {post: template(["<s>"], ["</s>"])}
    yield "stripping", {"/added_tokens": specials + [added(640, "[L]", lstrip=True, special=True), added(641, "[R]", rstrip=True), added(642, "[LR]", lstrip=True, rstrip=True),
                                                     added(643, "[W]", single_word=True), added(644, "[WORD", single_word=True, lstrip=True)]}
    yield "normalized", {norm: {"type": "NFC"}, "/added_tokens": specials + [added(640, "éa", normalized=True), added(641, "e\u0301e\u0301"), added(642, "cafx", normalized=True, special=True),
                                                                            added(643, "abq", normalized=True), added(644, "abqz")]}
    yield "longest", {"/added_tokens": specials + [added(640, "<|a|>"), added(641, "<|a|>b"), added(642, "|>"), added(643, "b c"), added(644, "Ġx y", special=True)]}
    yield "unknown_left_out", {"remove": ["/model/vocab/ð", "/model/vocab/Å", "/model/vocab/`"]}
    yield "unknown", {"/model/unk_token": "<|pad|>", "remove": ["/model/vocab/ð", "/model/vocab/Å", "/model/vocab/`"]}
    yield "unknown_fused", {"/model/unk_token": "<|pad|>", "/model/fuse_unk": True, "remove": ["/model/vocab/ð", "/model/vocab/Å", "/model/vocab/`"]}


def place(document, pointer):
    *path, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    for key in path:
        document = document[key]
    return document, last


def patched(base, patch):
    document = json.loads(json.dumps(base))
    for pointer, value in patch.items():
        if pointer == "remove":
            for gone in value:
                where, key = place(document, gone)
                del where[key]
        else:
            where, key = place(document, pointer)
            where[key] = value
    return document


WORDS = ["hello", "Hello", "special", " specialist", "return", "self", "don't", "DON'T", "we'LL", "it'ſ", "I'm", "x'K", "café", "cafe\u0301", "cafx", "naïve", "ǅungla", "ﬁn", "Straße",
         "नमस्ते", "مرحبا", "你好", "世界", "ひらがな", "カタカナ", "한국어", "각", "Å", "A\u030a", "Ω", "ΑΣ", "12", "3", "4567890", "½", "Ⅷ", "٣٤", "²",
         "😀", "👨\u200d👩\u200d👧", "🇫🇷", "…", "!?", "...", "--", "()", "[]{}", "`", "``", "_", "a.", "a.b", "$%", "<s>", "</s>", "<|pad|>", "<s", "[L]", "[R]", "[LR]", "[W]", "[WORD", "<|a|>", "<|a|>b",
         "|>", "b c", "abq", "abqz", "éa", "e\u0301a", "é", "e\u0301e\u0301", "Ġx y", "xx", "x", "\u200b", "\ufeff", "\u0301", "\u0000", "\u007f", "\u0085", "\u180e", "\u200d", "\ufffd", "\U0010ffff", "\u0e01\u0e33"]
SPACES = [" ", " ", " ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\u3000", "\u2028", "\n\n", "   \n", "\u000b", "\u000c", "\u001c", "\u1680", "\u202f", "\u205f"]


def text(chance):
    kind = chance.random()
    if kind < 0.1:  # anything that is a character
        codes = [chance.choice([range(0x80), range(0x800), range(0xd800), range(0xe000, 0x110000)]) for _ in range(chance.randrange(1, 30))]
        # Libraries know different versions of Unicode: what every one of them knows.
        return "".join(c for c in (chr(chance.choice(code)) for code in codes) if unicodedata.ucd_3_2_0.category(c) != "Cn")
    parts = []
    for _ in range(chance.randrange(1, 14)):
        parts.append(chance.choice(WORDS))
        if chance.random() < 0.6:
            parts.append(chance.choice(SPACES) * chance.choice([1, 1, 1, 2, 3]))
    return "".join(parts)


def main(seed=1, count=14, output=HERE / "variants.json"):
    base = json.loads((HERE.parent / "llama" / "tokenizer.json").read_text())
    chance = random.Random(int(seed))
    texts = ["", " ", "a", "hello café 123 <s> x [L] y"] + [text(chance) for _ in range(int(count))]
    rows = []
    for name, patch in variants(base):
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(patched(base, patch)))
        ids = [tokenizer.encode(t).ids for t in texts]
        decoded = [tokenizer.decode(i, skip_special_tokens=False) for i in ids]
        skipped = [tokenizer.decode(i, skip_special_tokens=True) for i in ids]
        rows.append({"name": name, "patch": patch, "ids": ids,
                     "decoded": [None if d == t else d for d, t in zip(decoded, texts)],
                     "skipped": [None if k == d else k for k, d in zip(skipped, decoded)]})
    document = {"made_with": f"tokenizers {tokenizers.__version__}", "texts": texts, "variants": rows}
    pathlib.Path(output).write_text(json.dumps(document, ensure_ascii=True, separators=(",", ":")) + "\n")


main(*sys.argv[1:])
