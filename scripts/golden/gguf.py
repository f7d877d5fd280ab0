# needs: gguf==0.19.0 llama-cpp-python==0.3.36 numpy==2.4.6
"""Golden data of llama.cpp and its Python package for GGUF files.

    scripts/make-golden gguf build/release/cli/weft

Makes tests/golden/gguf:
  blocks.safetensors  blocks of each quantised type and the values that the package reads from them, and values that it writes as Q8_0
  logits.safetensors  llama.cpp's logits at the last two positions of the golden models, exported by the given tool in each dtype
  tokens.json         llama.cpp's ids of texts, for the tokenizers of the golden models and for those of tests/golden/tokenizers
  pieces/             a tokenizer with all merges that SentencePiece's BPE makes
  q4_k_m.gguf         a small model quantised by llama.cpp: Q4_K and Q6_K
llama-cpp-python is built from source where the index has no wheel; that takes ten minutes.
"""
import ctypes
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unicodedata

sys.path[0] = str(pathlib.Path(__file__).resolve().parent / "lib")  # instead of this folder, whose gguf.py would hide the package
import gguf  # noqa: E402
import llama_cpp  # noqa: E402
import numpy as np  # noqa: E402

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
OUT = TESTS / "gguf"
DTYPES = ("f32", "f16", "bf16", "q8_0")
STORED = {"F32": "<f4", "I32": "<i4", "U8": "u1"}


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[8 + length:][slice(*entry["data_offsets"])], STORED[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items() if entry["dtype"] in STORED}


def write_safetensors(path, tensors):
    names = {np.dtype(code): name for name, code in STORED.items()}
    header, data = {}, b""
    for name, value in sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])):
        value = np.ascontiguousarray(value)
        header[name] = {"dtype": names[value.dtype], "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def random_blocks(kind, rng):
    """Blocks of a K type: random bits, with scales in the order of those of real weights."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (2, size), dtype=np.uint8)
    scales = [208] if kind == gguf.GGMLQuantizationType.Q6_K else [0, 2]
    for at in scales:
        blocks[:, at:at + 2] = rng.uniform(0.0005, 0.02, (2, 1)).astype(np.float16).view(np.uint8)
    return blocks


def blocks():
    rng, tensors = np.random.default_rng(1), {}
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"):
        kind = gguf.GGMLQuantizationType[name]
        values = rng.standard_normal((4, 32)).astype(np.float32)
        values[3] = 0  # a block without a scale
        raw = random_blocks(kind, rng) if name.endswith("_K") else gguf.quants.quantize(values, kind)
        tensors[name + ".blocks"] = raw.reshape(-1)
        tensors[name + ".values"] = gguf.quants.dequantize(raw, kind).reshape(-1)
        if name == "Q8_0":
            tensors[name + ".written"] = values.reshape(-1)
    write_safetensors(OUT / "blocks.safetensors", tensors)


@llama_cpp.llama_log_callback
def log(level, text, _):
    if level == 4:  # errors
        sys.stderr.write(text.decode())


def load(path, vocab_only=False):
    llama_cpp.llama_log_set(log, ctypes.c_void_p(0))
    params = llama_cpp.llama_model_default_params()
    params.vocab_only, params.use_mmap = vocab_only, False
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    assert model, f"llama.cpp does not load {path}"
    return model


def logits(path, ids):
    """At every position, with keys and values of the cache in f32."""
    model, params = load(path), llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 64
    params.type_k = params.type_v = 0
    params.flash_attn_type = 0
    params.n_threads = 1
    context = llama_cpp.llama_init_from_model(model, params)
    batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = int(token), i, 1, 1
        batch.seq_id[i][0] = 0
    assert llama_cpp.llama_decode(context, batch) == 0
    size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    result = np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), shape=(len(ids), size)).copy()
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return result


def tokenized(path, texts):
    model = load(path, vocab_only=True)
    vocab, rows = llama_cpp.llama_model_get_vocab(model), []
    for text in texts:
        raw = text.encode()
        buffer = (llama_cpp.llama_token * (len(raw) + 8))()
        count = llama_cpp.llama_tokenize(vocab, raw, len(raw), buffer, len(buffer), True, True)
        rows.append(list(buffer[:count]))
    llama_cpp.llama_model_free(model)
    return rows


def export(tool, source, target, dtype):
    subprocess.run([tool, "export", str(source), str(target), "--dtype", dtype], check=True, stdout=subprocess.DEVNULL)
    return target


def write_model(folder, vocab_size, width, rng, tokenizer=None):
    """A new llama of one layer."""
    folder.mkdir()
    kv = width // 4
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32", "vocab_size": vocab_size, "hidden_size": width,
              "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": width, "max_position_embeddings": 64,
              "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": None}
    (folder / "config.json").write_text(json.dumps(config))
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": (vocab_size, width), "model.norm.weight": (width,), layer + "input_layernorm.weight": (width,),
              layer + "post_attention_layernorm.weight": (width,), layer + "self_attn.q_proj.weight": (width, width),
              layer + "self_attn.k_proj.weight": (kv, width), layer + "self_attn.v_proj.weight": (kv, width), layer + "self_attn.o_proj.weight": (width, width),
              layer + "mlp.gate_proj.weight": (width, width), layer + "mlp.up_proj.weight": (width, width), layer + "mlp.down_proj.weight": (width, width)}
    write_safetensors(folder / "model.safetensors", {name: (rng.standard_normal(shape) * (0.05 if len(shape) == 2 else 0.2) + (len(shape) == 1)).astype(np.float32)
                                                     for name, shape in shapes.items()})
    for file in tokenizer.glob("tokenizer*.json") if tokenizer else []:
        shutil.copy(file, folder)
    return folder


def models(tool, temporary):
    tensors = {}
    for name in ("llama", "qwen2", "qwen3", "gpt2"):
        expected = read_safetensors(TESTS / "models" / name / "expected.safetensors")
        ids = expected["ids"][0]
        for dtype in DTYPES:
            found = logits(export(tool, TESTS / "models" / name, temporary / f"{name}-{dtype}.gguf", dtype), ids)
            tensors[f"{name}.{dtype}"] = found[-2:]
            difference = np.abs(found - expected["logits"][0]).max() / np.abs(expected["logits"][0]).max()
            print(f"{name} {dtype}: {difference:.1e} of the largest logit from transformers")
        # llama.cpp rounds activations as well; without that: the same weights in f32.
        tensors[name + ".q8_0.dequantised"] = logits(export(tool, temporary / f"{name}-q8_0.gguf", temporary / "dequantised.gguf", "f32"), ids)[-2:]
    rng = np.random.default_rng(2)
    folder = write_model(temporary / "wide", 40, 256, rng)
    plain, target = export(tool, folder, temporary / "wide.gguf", "f32"), OUT / "q4_k_m.gguf"
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M
    assert llama_cpp.llama_model_quantize(str(plain).encode(), str(target).encode(), ctypes.byref(params)) == 0
    ids = np.arange(1, 25)
    quantised, dequantised = logits(target, ids), logits(export(tool, target, temporary / "dequantised.gguf", "f32"), ids)
    print(f"q4_k_m: {np.abs(quantised - dequantised).max() / np.abs(dequantised).max():.1e} of the largest logit from the dequantised model")
    tensors["q4_k_m"], tensors["q4_k_m.dequantised"] = quantised[-2:], dequantised[-2:]
    write_safetensors(OUT / "logits.safetensors", tensors)


def write_pieces():
    """The characters and merges of the Llama 2 tokenizer's vocabulary, with every pair that forms a token in the order of SentencePiece."""
    content = json.loads((TESTS / "tokenizers" / "llama2" / "tokenizer.json").read_text(encoding="utf-8"))
    special = {token["content"] for token in content["added_tokens"]}
    ranks = {}
    for i, (left, right) in enumerate(content["model"]["merges"]):
        ranks.setdefault(left + right, i)
    kept = [token for token, id in sorted(content["model"]["vocab"].items(), key=lambda item: item[1])
            if token in special or token.startswith("<0x") or (len(token) == 1 or ranks.get(token, 9999) < 500) and max(token) < "\u2600"]
    vocab = {token: i for i, token in enumerate(kept)}
    merges = []
    for token in sorted((t for t in vocab if t in ranks), key=ranks.get):
        pairs = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in vocab and token[i:] in vocab]
        merges += sorted(pairs, key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
    content["model"]["vocab"], content["model"]["merges"] = vocab, [list(pair) for pair in merges]
    for token in content["added_tokens"]:
        token["id"] = vocab[token["content"]]
    (OUT / "pieces").mkdir(exist_ok=True)
    (OUT / "pieces" / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    shutil.copy(TESTS / "tokenizers" / "llama2" / "tokenizer_config.json", OUT / "pieces")


def tokens(tool, temporary):
    texts = json.loads((TESTS / "tokenizers" / "texts.json").read_text(encoding="utf-8"))[5::70]
    texts = ["Hello world", "  two  spaces\n\nand lines ", "it's 12345 o'clock, isn't it?", "<s>special</s>", "naïve café 你好 😀"] + [t for t in texts if len(t) < 300 and "\0" not in t and unicodedata.is_normalized("NFC", t)]
    write_pieces()
    rows = {}
    rng = np.random.default_rng(3)
    for name in ("models/gpt2", "models/llama", "models/qwen3", "tokenizers/gpt2", "tokenizers/llama3", "tokenizers/qwen2.5", "gguf/pieces"):
        source = TESTS / name
        if not name.startswith("models"):
            content = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
            size = 1 + max([token["id"] for token in content["added_tokens"]] + list(content["model"]["vocab"].values()))
            source = write_model(temporary / name.replace("/", "_"), size + 3, 32, rng, source)
        rows[name] = tokenized(export(tool, source, temporary / "tokenizer.gguf", "f16"), texts)
    listed = ",\n".join(json.dumps({"text": text, **{name: ids[i] for name, ids in rows.items()}}, ensure_ascii=False) for i, text in enumerate(texts))
    (OUT / "tokens.json").write_text(f"[\n{listed}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        blocks()
        tokens(sys.argv[1], pathlib.Path(folder))
        models(sys.argv[1], pathlib.Path(folder))
