# needs: tokenizers==0.23.3
"""Writes tests/golden/tokenizer_training/cases.json: what the BpeTrainer of the `tokenizers` library learns from small corpora made here.

    scripts/make-golden tokenizer_training

A case has the documents, the settings, and the results: its merges ("left right"), and the ids of some texts. `repeat`: the corpus is one
document, all documents joined, this many times. `alphabet`: the tokens before the merged ones, of a case without further special tokens.
"""
import json
import pathlib
import random
import sys

sys.path[0] += "/lib"  # instead of this folder, in which another file has the name of the package
import random_texts  # noqa: E402
import tokenizers  # noqa: E402
from tokenizers import Regex, models, pre_tokenizers, trainers  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/tokenizer_training"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
END = "<|endoftext|>"
TEXTS = ["", "the people of the river", "Don't  worry:\n\n\tit's 12345 o'clock", "naïve café 你好世界 👩🏾‍💻", f"one{END}two {END}"]


def pre_tokenizer(pattern):
    if pattern == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(case):
    documents = ["".join(case["documents"]) * case["repeat"]] if "repeat" in case else case["documents"]
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer(case["pattern"])
    trainer = trainers.BpeTrainer(vocab_size=case["vocab"], min_frequency=case["min_frequency"], special_tokens=[END, *case["special"]],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer, json.loads(tokenizer.to_str())["model"]


def corpora():
    """name: documents"""
    chance = random.Random(22)
    word = lambda letters, longest: "".join(chance.choice(letters) for _ in range(chance.randrange(1, longest)))
    sentences = lambda scripts, count: [" ".join(chance.choice(random_texts.words_of(chance.choice(scripts))) for _ in range(12)) + ".\n" for _ in range(count)]
    return {
        "ties": ["xy yx ab ba cd dc", "dc cd ba ab yx xy zz"],
        "one_word": ["mississippi"],
        "overlaps": ["aaaaaaaaa aaa aaaa aa aaaaabaaaa", "abababab babab"],
        "two_letters": [" ".join(word("ab", 12) for _ in range(60)) for _ in range(4)],
        "long_word": [word("abcdefgh", 3000), word("01", 900), "漢" * 700 + "字" * 300],
        "digits": [str(chance.randrange(10 ** chance.randrange(1, 15))) + chance.choice([" ", ",", ".", ""]) for _ in range(300)],
        "white_space": ["".join(chance.choice([" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "x", "-"]) for _ in range(1500))],
        "cjk": sentences(["chinese", "japanese", "korean"], 60),
        "emoji": sentences(["emoji"], 60),
        "scripts": [random_texts.sentence(chance, [END]) for _ in range(250)],
        "characters": [random_texts.any_characters(chance) for _ in range(150)],
        "english": sentences(["english", "english", "english", "latin", "numbers", "code"], 150),
    }


def case(name, documents, vocab=400, pattern="gpt2", min_frequency=0, special=(), **more):
    settings = {"name": name, "pattern": pattern, "vocab": vocab, "min_frequency": min_frequency, "special": list(special), "documents": documents} | more
    tokenizer, model = train(settings)
    merges = model["merges"]
    assert train(settings)[1] == model, f"{name}: `tokenizers` gives other merges the next time"
    assert all(" " not in part for merge in merges for part in merge)
    learned = settings | {"merges": [" ".join(merge) for merge in merges], "vocabulary": len(model["vocab"]), "texts": {text: tokenizer.encode(text).ids for text in TEXTS}}
    return learned, tokenizer


def main():
    texts = corpora()
    cases = [case(f"{name}/{pattern}", documents, {"english": 800, "scripts": 1200}.get(name, 400), pattern)[0]
             for name, documents in texts.items() for pattern in ("gpt2", "llama3")]
    cases += [
        case("min_frequency", texts["english"], 2000, min_frequency=12)[0],
        case("no_merges", texts["english"], 257)[0],
        # Merges that arrive at a special token: the vocabulary does not grow.
        case("special", texts["two_letters"], 300, special=["ab", "<|pad|>", "Ġba"])[0],
        # Long enough to be split into tasks.
        case("repeated/gpt2", texts["english"] + texts["scripts"], 600, repeat=12)[0],
        case("repeated/llama3", texts["english"] + texts["scripts"], 600, "llama3", repeat=12)[0],
    ]
    special = next(c for c in cases if c["name"] == "special")
    assert len(special["merges"]) > special["vocabulary"] - 256 - 4
    tokenizer = case("alphabet", ["a"], 257)[1]
    alphabet = [tokenizer.id_to_token(id) for id in range(257)]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "cases.json").write_text(json.dumps({"alphabet": alphabet, "cases": cases}, ensure_ascii=False, indent=0, separators=(",", ":")) + "\n")
    print(f"{len(cases)} cases, {(OUT / 'cases.json').stat().st_size} bytes")


main()
