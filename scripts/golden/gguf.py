# needs: gguf==0.19.0 xllamacpp==2026.10.11549 numpy==2.4.6 torch==2.15.0 transformers==5.23.0 safetensors==0.8.0
"""Golden data of llama.cpp and its Python package for GGUF files.

    scripts/make-golden gguf build/release/cli/weft

Makes tests/golden/gguf:
  blocks.safetensors  blocks of each quantised type and the values that the package reads from them, and values that it writes as Q8_0
  models/             tiny random models of the families whose golden models have settings that llama.cpp lacks, in float16
  logits.safetensors  llama.cpp's logits at the last two positions of these models and of golden ones, exported by the given tool in each
                      dtype
  tokens.json         llama.cpp's ids of texts, for the tokenizers of the golden models and for those of tests/golden/tokenizers
  pieces/             a tokenizer with all merges that SentencePiece's BPE makes
  mxfp4.gguf          the gpt-oss of models/ as it is published: its experts in MXFP4
q4_k_m.gguf is not made again: a small model that llama-cpp-python 0.3.36 quantised, in Q4_K and Q6_K. llama.cpp is the shared object of the package
xllamacpp (lib/llama_library.py).
"""
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
import llama_library as llama  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

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
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "MXFP4"):
        kind = gguf.GGMLQuantizationType[name]
        values = rng.standard_normal((4, 32)).astype(np.float32)
        values[3] = 0  # a block without a scale
        raw = random_blocks(kind, rng) if name.endswith("_K") else gguf.quants.quantize(values, kind)
        tensors[name + ".blocks"] = raw.reshape(-1)
        tensors[name + ".values"] = gguf.quants.dequantize(raw, kind).reshape(-1)
        if name == "Q8_0":
            tensors[name + ".written"] = values.reshape(-1)
    write_safetensors(OUT / "blocks.safetensors", tensors)


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


YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
PLAIN = dict(rope_type="default", rope_theta=10000.0)
SMALL = dict(vocab_size=61, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8, intermediate_size=24,
             max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=None, tie_word_embeddings=False)
# The class in transformers without "ForCausalLM", and its options: as many layers as the family's pattern needs.
FAMILIES = {
    "mistral": ("Mistral", dict(sliding_window=None)),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0], use_sliding_window=False, tie_word_embeddings=True)),
    "olmo2": ("Olmo2", dict(rope_parameters=YARN)),
    "olmo3": ("Olmo3", dict(num_hidden_layers=4, sliding_window=7, rope_parameters=dict(full_attention=YARN, sliding_attention=PLAIN))),
    "qwen3_moe": ("Qwen3Moe", dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True)),
    "gemma2": ("Gemma2", dict(num_hidden_layers=3, query_pre_attn_scalar=8, sliding_window=7, attn_logit_softcapping=2.0,
                              final_logit_softcapping=5.0, tie_word_embeddings=True)),
    "gemma3": ("Gemma3Text", dict(num_hidden_layers=6, query_pre_attn_scalar=8, sliding_window=7, tie_word_embeddings=True,
                                  rope_parameters=dict(full_attention=dict(PLAIN, rope_type="linear", rope_theta=1e6, factor=2.0),
                                                       sliding_attention=PLAIN))),
    "gpt_oss": ("GptOss", dict(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32, num_local_experts=3,
                               num_experts_per_tok=2, sliding_window=7, rope_parameters=dict(YARN, beta_fast=32.0, beta_slow=1.0, truncate=True))),
}
GOLDEN = ("llama", "qwen2", "qwen3", "gpt2", "granite", "phi3", "mixtral", "ministral3")  # of tests/golden/models


def write_family(name):
    kind, options = FAMILIES[name]
    config = getattr(transformers, kind + "Config")(**{**SMALL, **options})
    config._attn_implementation = "eager"
    model = getattr(transformers, kind.removesuffix("Text") + "ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            gain = weight.dim() == 1 and key.endswith("weight") and not kind.startswith("Gemma")
            weight.copy_((0.2 * torch.randn(weight.shape, generator=generator) + gain).half())
        ids = torch.randint(2, 61, (24,), generator=torch.Generator().manual_seed(5))
        expected = model(ids[None], use_cache=False).logits[0].numpy()
    shutil.rmtree(OUT / "models" / name, ignore_errors=True)
    model.half().save_pretrained(OUT / "models" / name)
    (OUT / "models" / name / "generation_config.json").unlink(missing_ok=True)
    return ids.numpy().astype(np.int32), expected


def distance(found, expected):
    return f"{np.abs(found - expected).max() / np.abs(expected).max():.1e}"


def logits_of_models(tool, temporary, tensors):
    for name in (*GOLDEN, *FAMILIES):
        folder = OUT / "models" / name
        if name in FAMILIES:
            ids, expected = write_family(name)
            tensors[name + ".ids"] = ids
        else:
            folder, golden = TESTS / "models" / name, read_safetensors(TESTS / "models" / name / "expected.safetensors")
            ids, expected = golden["ids"][0], golden["logits"][0]
        for dtype in DTYPES if name in GOLDEN or name == "gpt_oss" else DTYPES[:-1]:  # rows of 16 are not written as Q8_0
            found = llama.logits(export(tool, folder, temporary / f"{name}-{dtype}.gguf", dtype), ids)
            tensors[f"{name}.{dtype}"] = found[-2:]
            print(f"{name} {dtype}: {distance(found, expected)} of the largest logit from transformers")
        if f"{name}.q8_0" not in tensors:
            continue
        # llama.cpp rounds activations as well; without that: the same weights in f32.
        dequantised = export(tool, temporary / f"{name}-q8_0.gguf", temporary / "dequantised.gguf", "f32")
        tensors[name + ".q8_0.dequantised"] = llama.logits(dequantised, ids)[-2:]


def with_mxfp4(source, target):
    """The file with its experts in MXFP4, as the package quantises them."""
    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(target, "gpt-oss")
    for key, field in reader.fields.items():
        if key != "general.architecture" and not key.startswith("GGUF."):
            writer.add_key_value(key, field.contents(), field.types[0], field.types[-1])
    for tensor in reader.tensors:
        if tensor.name.endswith("_exps.weight"):
            kind = gguf.GGMLQuantizationType.MXFP4
            writer.add_tensor(tensor.name, gguf.quants.quantize(tensor.data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def models(tool, temporary):
    tensors = {}
    logits_of_models(tool, temporary, tensors)
    with_mxfp4(temporary / "gpt_oss-f16.gguf", OUT / "mxfp4.gguf")
    for name, ids in (("q4_k_m", np.arange(1, 25)), ("mxfp4", tensors["gpt_oss.ids"])):
        source = OUT / f"{name}.gguf"
        quantised, dequantised = llama.logits(source, ids), llama.logits(export(tool, source, temporary / "dequantised.gguf", "f32"), ids)
        print(f"{name}: {distance(quantised, dequantised)} of the largest logit from the dequantised model")
        tensors[name], tensors[name + ".dequantised"] = quantised[-2:], dequantised[-2:]
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
        rows[name] = llama.tokenized(export(tool, source, temporary / "tokenizer.gguf", "f16"), texts)
    listed = ",\n".join(json.dumps({"text": text, **{name: ids[i] for name, ids in rows.items()}}, ensure_ascii=False) for i, text in enumerate(texts))
    (OUT / "tokens.json").write_text(f"[\n{listed}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        blocks()
        tokens(sys.argv[1], pathlib.Path(folder))
        models(sys.argv[1], pathlib.Path(folder))
