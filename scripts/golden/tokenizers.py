# needs: tokenizers==0.23.3
"""Writes tests/golden/tokenizers: a small tokenizer with the settings of each family, trained by the `tokenizers` library on texts made
here, and the library's results on the same 2100 texts for each.

    scripts/make-golden tokenizers

texts.json        the texts
FAMILY/tokenizer.json, tokenizer_config.json
FAMILY/expected.json
    before, after   ids that the template puts around a text
    ids             for each text its ids without those, two letters of ALPHABET each
    decoded         the text of all ids; null: head + text + tail, where head and tail are the family's most common
    skipped         the same without special tokens; null: the text
variants.json     settings that no family has, as changes (JSON pointers) of mistral/tokenizer.json, with results on some of the texts
"""
import collections
import json
import pathlib
import sys

sys.path[0] += "/lib"  # instead of this folder, in which this file has the name of the package
import random_texts  # noqa: E402
import tokenizers  # noqa: E402
from tokenizers import Regex, models, pre_tokenizers, trainers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/golden/tokenizers"
COUNT, VOCABULARY = 2100, 2600
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def added(id, content, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} | flags


def template(*names):
    special = [{"SpecialToken": {"id": name, "type_id": 0}} for name in names]
    return {"type": "TemplateProcessing", "single": special + [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": special + [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [None], "tokens": [name]} for name in names}}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def byte_level(use_regex, trim=True):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": trim, "use_regex": use_regex}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


PREPEND = sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, replace(" ", "▁"))
FALLBACK = [replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
SENTENCE_PIECE = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}

# name: first tokens of the vocabulary, tokens added behind it, members of the file, members of the model, tokenizer_config.json
FAMILIES = {
    "llama2": (["<unk>", "<s>", "</s>", *BYTES], [],
               {"normalizer": PREPEND, "pre_tokenizer": None, "decoder": sequence("decoders", *FALLBACK, STRIP), "post_processor": template("<s>"),
                "added": [("<unk>", {}), ("<s>", {}), ("</s>", {})]},
               SENTENCE_PIECE, {"add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}),
    "mistral": (["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", *BYTES], [],
                {"normalizer": None, "pre_tokenizer": metaspace("first", False), "decoder": sequence("decoders", *FALLBACK, STRIP), "post_processor": template("<s>"),
                 "added": [("<unk>", {}), ("<s>", {}), ("</s>", {}), ("[INST]", {}), ("[/INST]", {}), ("[TOOL_CALLS]", {})]},
                SENTENCE_PIECE, {"add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>"}),
    "gemma": (["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>", "\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁", "▁▁▁▁", "\t", "<table>", "<b>", *BYTES], [],
              {"normalizer": replace(" ", "▁"), "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
               "decoder": sequence("decoders", *FALLBACK), "post_processor": template("<bos>"),
               "added": [(t, {}) for t in ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>")]
                        + [(t, {"special": False}) for t in ("\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁", "▁▁▁▁", "\t", "<table>", "<b>")]},
              SENTENCE_PIECE, {"add_bos_token": True, "add_eos_token": False, "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}),
    "phi3": (["<unk>", "<s>", "</s>", *BYTES], ["<|endoftext|>", "<|assistant|>", "<|placeholder1|>", "<|system|>", "<|end|>", "<|user|>"],
             {"normalizer": PREPEND, "pre_tokenizer": None, "decoder": sequence("decoders", *FALLBACK, STRIP), "post_processor": template(),
              "added": [("<unk>", {}), ("<s>", {}), ("</s>", {"rstrip": True, "special": False}), ("<|endoftext|>", {})]
                       + [(t, {"rstrip": True}) for t in ("<|assistant|>", "<|placeholder1|>", "<|system|>", "<|end|>", "<|user|>")]},
             SENTENCE_PIECE, {"add_bos_token": False, "add_eos_token": False, "bos_token": "<s>", "eos_token": "<|endoftext|>"}),
    "metaspace": (["<unk>", "<s>", "</s>"], ["<mask>", "<word>"],
                  {"normalizer": None, "pre_tokenizer": metaspace("always", True), "decoder": metaspace("always", True), "post_processor": template("<s>"),
                   "added": [("<unk>", {}), ("<s>", {}), ("</s>", {}), ("<mask>", {"lstrip": True}), ("<word>", {"single_word": True, "special": False})]},
                  {"unk_token": "<unk>"}, {"bos_token": "<s>", "eos_token": "</s>"}),
    "llama3": ([], ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"],
               {"normalizer": None, "pre_tokenizer": sequence("pretokenizers", split(LLAMA3), byte_level(False)), "decoder": byte_level(True),
                "post_processor": sequence("processors", byte_level(True, trim=False), template("<|begin_of_text|>")), "added": None},
               {"ignore_merges": True}, {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}),
    "qwen2.5": ([], ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"],
                {"normalizer": {"type": "NFC"}, "pre_tokenizer": sequence("pretokenizers", split(QWEN), byte_level(False)), "decoder": byte_level(False),
                 "post_processor": byte_level(False), "added": None},
                {}, {"add_bos_token": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}),
    "gpt2": ([], ["<|endoftext|>"],
             {"normalizer": None, "pre_tokenizer": byte_level(True), "decoder": byte_level(True), "post_processor": byte_level(True, trim=False), "added": None},
             {}, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}),
}
NOT_SPECIAL = {"<tool_call>", "</tool_call>"}


def train(family, corpus):
    """The vocabulary and the merges. Words of characters are a run of marks with what follows, as SentencePiece has them."""
    first, last, members, model, _ = FAMILIES[family]
    of_bytes = "ByteLevel" in json.dumps(members["pre_tokenizer"])
    trained = tokenizers.Tokenizer(models.BPE())
    if of_bytes:
        pattern = QWEN if family == "qwen2.5" else LLAMA3
        trained.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=first, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    else:
        trained.pre_tokenizer = pre_tokenizers.Split(Regex("▁+[^▁]*|[^▁]+"), "isolated")
        corpus = [text.replace(" ", "▁") for text in corpus]
        counts = collections.Counter("".join(corpus))
        common = sorted(counts, key=lambda c: (-counts[c], c))[:360]  # the others are left to byte_fallback; the trainer's own choice varies
        trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=first, initial_alphabet=common, limit_alphabet=len(common), show_progress=False)
    trained.train_from_iterator(corpus, trainer)
    learned = json.loads(trained.to_str())["model"]
    vocab = dict(sorted(learned["vocab"].items(), key=lambda pair: pair[1]))
    if family == "llama3":  # words that merges do not reach
        for word in ("Ġunmergeable", "zzqj"):
            vocab[word] = len(vocab)
    return vocab, learned["merges"]


def tokenizer_json(family, corpus):
    first, last, members, model, _ = FAMILIES[family]
    vocab, merges = train(family, corpus)
    ids = vocab | {name: len(vocab) + i for i, name in enumerate(last)}
    tokens = members["added"] or [(name, {"special": name not in NOT_SPECIAL, "normalized": family == "gpt2"}) for name in last]
    document = {"version": "1.0", "truncation": None, "padding": None,
                "added_tokens": [added(ids[name], name, **flags) for name, flags in tokens],
                "normalizer": members["normalizer"], "pre_tokenizer": members["pre_tokenizer"], "post_processor": json.loads(json.dumps(members["post_processor"])),
                "decoder": members["decoder"],
                "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                          "fuse_unk": False, "byte_fallback": False, "ignore_merges": False} | model | {"vocab": vocab, "merges": merges}}
    processors = document["post_processor"].get("processors", [document["post_processor"]])
    for processor in processors:
        for name, token in processor.get("special_tokens", {}).items():
            token["ids"] = [ids[name]]
    return document


def letters(ids):
    return "".join(ALPHABET[id // 64] + ALPHABET[id % 64] for id in ids)


def around(decoded, all_texts):
    """The most common head and tail around a text."""
    found = collections.Counter()
    for text, whole in zip(all_texts, decoded):
        at = whole.find(text) if len(text) > 10 else -1
        if at >= 0:
            found[whole[:at], whole[at + len(text):]] += 1
    return found.most_common(1)[0][0]


def expected(tokenizer, all_texts):
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in all_texts]
    whole = [tokenizer.encode(text).ids for text in all_texts]
    before = whole[0]  # of the empty text
    assert all(w == before + i for w, i in zip(whole, ids)), "the template adds more than a prefix"
    decoded = [tokenizer.decode(w, skip_special_tokens=False) for w in whole]
    skipped = [tokenizer.decode(w, skip_special_tokens=True) for w in whole]
    head, tail = around(decoded, all_texts)
    return {"made_with": f"tokenizers {tokenizers.__version__}", "before": before, "after": [], "head": head, "tail": tail,
            "ids": [letters(i) for i in ids],
            "decoded": [None if d == head + t + tail else d for d, t in zip(decoded, all_texts)],
            "skipped": [None if s == t else s for s, t in zip(skipped, all_texts)]}


def variants(base):
    """Name and changes."""
    norm, pre, post, decoder, tokens = "/normalizer", "/pre_tokenizer", "/post_processor", "/decoder", "/added_tokens"
    names = [token["content"] for token in base["added_tokens"]]

    def flags(**changes):
        return [token | changes if token["content"] not in ("<unk>", "<s>") else token for token in base["added_tokens"]]

    def chain(*steps):
        return {decoder: sequence("decoders", *steps)}

    def regex(pattern, new):
        return {"type": "Replace", "pattern": {"Regex": pattern}, "content": new}

    def strip(content, start, stop):
        return {"type": "Strip", "content": content, "start": start, "stop": stop}

    for scheme in ("always", "first", "never"):
        for cuts in (True, False):
            yield f"metaspace {scheme} {cuts}", {pre: metaspace(scheme, cuts), decoder: metaspace(scheme, cuts)}
    old = {"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": True}
    yield "metaspace, old", {pre: old, decoder: old}
    yield "metaspace, old, no prefix", {pre: old | {"add_prefix_space": False, "prepend_scheme": "never"}}
    yield "metaspace, other mark", {pre: metaspace("always", True) | {"replacement": "_"}, decoder: metaspace("always", True) | {"replacement": "_"}}
    yield "metaspace after digits", {pre: sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, metaspace("first", True))}
    yield "metaspace after a split", {pre: sequence("pretokenizers", split(r"\p{P}|\n"), metaspace("always", False))}
    yield "metaspace after removal", {pre: sequence("pretokenizers", split("[a-m]") | {"behavior": "Removed"}, metaspace("first", False))}
    yield "no pre-tokenizer", {pre: None}
    for left in (True, False):
        for right in (True, False):
            yield f"strip {left} {right}", {norm: {"type": "Strip", "strip_left": left, "strip_right": right}}
    yield "replace spaces", {norm: regex(r"\s+", " ")}
    yield "replace vowels by nothing", {norm: regex("[aeiou]", "")}
    yield "replace nothing", {norm: regex("x*", "-")}
    yield "replace the beginning", {norm: regex(r"^\s|<", "")}
    yield "replace a text", {norm: sequence("normalizers", replace("''", '"'), replace("a", "bc"), replace("...", "…"))}
    yield "forms and marks", {norm: sequence("normalizers", {"type": "NFKC"}, replace(" ", "▁"), {"type": "Prepend", "prepend": "▁x"}), pre: None}
    yield "marks and forms", {norm: sequence("normalizers", {"type": "Prepend", "prepend": "e"}, {"type": "NFC"}), pre: None}
    for change in ({"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True}, {"single_word": True}, {"single_word": True, "lstrip": True}, {"normalized": True},
                   {"normalized": True, "lstrip": True, "rstrip": True}, {"special": False}):
        yield "tokens " + " ".join(change), {tokens: flags(**change)}
        if "special" not in change and "normalized" not in change:
            yield "tokens, prepended " + " ".join(change), {tokens: flags(**change), norm: PREPEND, pre: None}
    flagged = {"\n\n": {"lstrip": True, "rstrip": True}, "  ": {"rstrip": True, "special": False}, "\t": {"lstrip": True}, "</s> ": {"rstrip": True}}
    new = [name for name in flagged if name not in base["model"]["vocab"]]
    spaces = [added(2600 + new.index(name) if name in new else base["model"]["vocab"][name], name, **more) for name, more in flagged.items()]
    yield "tokens of white space", {tokens: base["added_tokens"] + spaces}
    yield "ids only: normalized tokens, prepended", {tokens: flags(normalized=True), norm: PREPEND, pre: None}
    yield "strip 2 1", chain(*FALLBACK, strip(" ", 2, 1))
    yield "strip of each token", chain(strip("▁", 1, 0), strip("e", 0, 1), {"type": "ByteFallback"})
    yield "strip without fuse", chain(replace("▁", " "), {"type": "ByteFallback"}, strip(" ", 1, 0))
    yield "strip bytes", chain({"type": "ByteFallback"}, strip("\u00e9", 3, 0), {"type": "Fuse"}, strip("▁", 1, 0))
    yield "replace after fuse", chain({"type": "ByteFallback"}, {"type": "Fuse"}, regex("▁+", " "), strip(" ", 1, 0))
    yield "replace by regex", chain(regex("^▁|e", "~"), {"type": "ByteFallback"})
    yield "fallback after fuse", chain({"type": "Fuse"}, {"type": "ByteFallback"})
    yield "marks after bytes", chain({"type": "ByteFallback"}, metaspace("first", True))
    yield "bytes last", chain(replace("▁", "Ġ"), byte_level(True))
    yield "bytes after fuse", chain({"type": "ByteFallback"}, {"type": "Fuse"}, byte_level(True), strip("t", 1, 1))
    yield "decode one step", {decoder: replace("▁", "_")}
    yield "unknown", {"/model/byte_fallback": False, "/model/fuse_unk": False}
    yield "unknown, fused", {"/model/byte_fallback": False}
    missing = {token: id for token, id in base["model"]["vocab"].items() if token not in ("<0xF0>", "<0xCE>", "<0x00>")}
    yield "bytes missing, fused", {"/model/vocab": missing}
    yield "bytes missing", {"/model/vocab": missing, "/model/fuse_unk": False}
    words = {word: 2600 + i for i, word in enumerate(["▁The▁", "▁ab", "▁a", "中文", "▁naïve", "▁αβ", "▁a▁b"]) if word not in base["model"]["vocab"]}
    yield "ignore merges", {"/model/ignore_merges": True, "/model/vocab": base["model"]["vocab"] | words, pre: metaspace("first", True)}
    yield "merges across marks", {"/model/vocab": base["model"]["vocab"] | {"e▁": 2600, "s▁": 2601, "e▁t": 2602}, "/model/merges": [["e", "▁"], ["s", "▁"], ["e▁", "t"]] + base["model"]["merges"]}
    processor = template("<s>")
    processor["single"].append({"SpecialToken": {"id": "</s>", "type_id": 0}})
    processor["special_tokens"] = {name: {"id": name, "ids": [names.index(name)], "tokens": [name]} for name in ("<s>", "</s>")}
    yield "both ends", {post: processor}


def patched(base, patch):
    document = json.loads(json.dumps(base))
    for pointer, value in patch.items():
        *path, last = pointer.split("/")[1:]
        place = document
        for key in path:
            place = place[key]
        place[last] = value
    return document


def result_of(tokenizer, text):
    ids = tokenizer.encode(text).ids
    try:
        return ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)
    except BaseException as error:  # the library's Strip fails on a token shorter than its count
        assert "Panic" in type(error).__name__, error
        return ids, None, None


def variant_rows(base, all_texts):
    """Changes of the vocabulary are stored as what is added and removed; a decoded text as 0 if it is the text (skipped: as decoded)."""
    chosen = list(range(70)) + list(range(200, COUNT, 37))
    rows = []
    for name, patch in variants(base):
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(patched(base, patch)))
        results = [result_of(tokenizer, all_texts[i]) for i in chosen]
        if name.startswith("ids only"):
            results = [(ids, None, None) for ids, *_ in results]
        vocab = patch.pop("/model/vocab", base["model"]["vocab"])
        merges = patch.pop("/model/merges", base["model"]["merges"])
        rows.append({"name": name, "patch": patch, "tokens": {t: i for t, i in vocab.items() if t not in base["model"]["vocab"]},
                     "removed": [t for t in base["model"]["vocab"] if t not in vocab], "merges": merges[:len(merges) - len(base["model"]["merges"])],
                     "ids": [letters(ids) for ids, *_ in results], "decoded": [0 if d == all_texts[i] else d for i, (_, d, _) in zip(chosen, results)], "skipped": [0 if s == d else s for _, d, s in results]})
    return {"made_with": f"tokenizers {tokenizers.__version__}", "texts": chosen, "variants": rows}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    names = dict.fromkeys(name for first, last, members, *_ in FAMILIES.values() for name in [n for n, _ in members["added"] or []] + last)
    all_texts = random_texts.texts(1, COUNT, [name for name in names if name.strip("\n\t▁")])
    write(OUT / "texts.json", all_texts)
    corpus = random_texts.texts(2, 12000)
    for family, (*_, config) in FAMILIES.items():
        document = tokenizer_json(family, corpus)
        write(OUT / family / "tokenizer.json", document)
        write(OUT / family / "tokenizer_config.json", config)
        tokenizer = tokenizers.Tokenizer.from_file(str(OUT / family / "tokenizer.json"))
        assert tokenizer.get_vocab_size() <= 4096
        results = expected(tokenizer, all_texts)
        write(OUT / family / "expected.json", results)
        print(f"{family}: {tokenizer.get_vocab_size()} tokens, {sum(map(len, results['ids'])) // 2} ids, "
              f"{sum(d is not None for d in results['decoded'])} + {sum(s is not None for s in results['skipped'])} texts decoded differently")
    write(OUT / "variants.json", variant_rows(json.loads((OUT / "mistral/tokenizer.json").read_text()), all_texts))


if __name__ == "__main__":
    main()
