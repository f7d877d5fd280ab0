# needs: torch==2.15.0 transformers==5.23.0 safetensors==0.8.0 numpy
"""Golden data of the model families: tiny random models and what transformers computes from them, in float32 with eager attention.

    scripts/make-golden families                makes tests/golden/models/FAMILY for each of FAMILIES
    scripts/make-golden families check WEFT     exports each folder with the tool WEFT, and compares what transformers loads from the export

weights ~ N(0, 0.3), gains of norms 1 + N(0, 0.3); logits = model(ids); losses[0] = cross entropy of model(train_ids[:, :-1]) and
train_ids[:, 1:], which has the padding token among the inputs; grad0.* its gradients; greedy = 8 prompt tokens of ids[0] and 30 more.
Positions of kind dynamic and longrope are those of the declared context, max_position_embeddings, at every length.
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.pop(0)  # this folder has a tokenizers.py, which is not the package of that name

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "models"
PROMPT, GREEDY, PAD = 8, 38, 7

COMMON = dict(vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=40,
              max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=PAD, tie_word_embeddings=False)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, beta_fast=2.0, beta_slow=0.25)

# The class in transformers without "ForCausalLM", and its options.
FAMILIES = {
    "mistral": ("Mistral", dict(sliding_window=7)),
    "granite": ("Granite", dict(embedding_multiplier=3.0, attention_multiplier=0.6, residual_multiplier=0.4, logits_scaling=1.7, attention_bias=True,
                                rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=3.0))),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=3, no_rope_layers=[1, 0, 1], use_sliding_window=True, sliding_window=9, tie_word_embeddings=True,
                                rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=0.3))),
    "olmo2": ("Olmo2", dict(rope_parameters=YARN)),
    "phi3": ("Phi3", dict(hidden_size=32, original_max_position_embeddings=16,
                          rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75, short_factor=[1.0, 1.1, 1.3],
                                               long_factor=[1.2, 2.5, 3.75], original_max_position_embeddings=16))),
    "qwen2_window": ("Qwen2", dict(use_sliding_window=True, sliding_window=6, max_window_layers=1, tie_word_embeddings=True)),
    "qwen3_window": ("Qwen3", dict(use_sliding_window=True, sliding_window=6, max_window_layers=1)),
    "gemma2": ("Gemma2", dict(query_pre_attn_scalar=5, sliding_window=7, attn_logit_softcapping=2.0, final_logit_softcapping=5.0,
                              tie_word_embeddings=True)),
    "gemma3": ("Gemma3", dict(num_hidden_layers=3, query_pre_attn_scalar=5, sliding_window=7, tie_word_embeddings=True,
                              layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                              rope_parameters=dict(full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=2.0),
                                                   sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
    "olmo3": ("Olmo3", dict(sliding_window=7, layer_types=["sliding_attention", "full_attention"],
                            rope_parameters=dict(full_attention=YARN, sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
    "qwen3_moe": ("Qwen3Moe", dict(num_hidden_layers=3, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, mlp_only_layers=[1],
                                   norm_topk_prob=True, output_router_logits=True, router_aux_loss_coef=0.5)),
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=3, intermediate_size=20, output_router_logits=True,
                                router_aux_loss_coef=0.5)),
    "gpt_oss": ("GptOss", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=7, output_router_logits=True, router_aux_loss_coef=0.5,
                               swiglu_limit=1.5, rope_parameters=dict(YARN, truncate=False))),
    "ministral3": ("Ministral3", dict(rope_parameters=dict(YARN, llama_4_scaling_beta=0.3))),
}


def declare_context(model):
    """Positions of kind dynamic and longrope as they are at the length max_position_embeddings."""
    positions = model.model.rotary_emb
    if positions.rope_type not in ("dynamic", "longrope"):
        return
    positions.inv_freq, positions.attention_scaling = ROPE_INIT_FUNCTIONS[positions.rope_type](
        model.config, None, seq_len=model.config.max_position_embeddings)
    positions.rope_type = "default"  # no update by the current length


def random_model(name, seed):
    kind, options = FAMILIES[name]
    config_class = getattr(transformers, ("Gemma3Text" if kind == "Gemma3" else kind) + "Config")
    config = config_class(**{**COMMON, **options})
    config._attn_implementation = "eager"
    model = getattr(transformers, kind + "ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            one = 1.0 if parameter.dim() == 1 and not kind.startswith("Gemma") else 0.0
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator) + one)
        for key, parameter in model.named_parameters():
            if key.endswith(".bias"):
                parameter -= 1.0
    return model, generator


def greedy(model, ids):
    """The continuation, and the least distance of the best two logits over the largest."""
    ids, margin = ids[:1, :PROMPT], 1.0
    while ids.shape[1] < GREEDY:
        logits = model(ids, use_cache=False).logits[0, -1]
        best = torch.topk(logits, 2)
        margin = min(margin, float((best.values[0] - best.values[1]) / logits.abs().max()))
        ids = torch.cat([ids, best.indices[:1].reshape(1, 1)], 1)
    return ids[0], margin


def outputs(model, generator):
    ids = torch.randint(0, 61, (2, 24), generator=generator)
    train = torch.randint(0, 61, (2, 33), generator=generator)
    train[0, 3] = train[1, 20] = PAD
    out = model(train[:, :-1], use_cache=False)
    loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), train[:, 1:].flatten())
    if getattr(out, "aux_loss", None) is not None:
        loss = loss + model.config.router_aux_loss_coef * out.aux_loss
    loss.backward()
    tensors = {f"grad0.{key}": value.grad for key, value in model.named_parameters()}
    with torch.no_grad():
        continued, margin = greedy(model, ids)
        tensors.update(logits=model(ids, use_cache=False).logits, losses=loss.detach().reshape(1), ids=ids.int(), train_ids=train.int(),
                       greedy=continued.int())
    return {key: value.contiguous() for key, value in tensors.items()}, margin


def make(name):
    for seed in range(1, 50):
        model, generator = random_model(name, seed)
        declare_context(model)
        tensors, margin = outputs(model, generator)
        if margin > 1e-3 and len(set(tensors["greedy"].tolist())) > 8:  # no near tie, and not one token again and again
            break
    else:
        raise SystemExit(f"{name}: no seed gives a greedy text without near ties")
    folder = FOLDER / name
    model.save_pretrained(folder)
    note = f"transformers {transformers.__version__}, torch {torch.__version__}; scripts/golden/families.py says what the values are"
    save_file(tensors, folder / "expected.safetensors", {"note": note})
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: seed {seed}, margin {margin:.1e}, loss {tensors['losses'][0]:.3f}, {size // 1024} KiB")


def check(name, weft):
    before = load_file(FOLDER / name / "model.safetensors")
    expected = load_file(FOLDER / name / "expected.safetensors")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([weft, "export", str(FOLDER / name), folder], check=True, stdout=subprocess.DEVNULL)
        after = load_file(pathlib.Path(folder) / "model.safetensors")
        assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before), f"{name}: other tensors"
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    declare_context(model)
    with torch.no_grad():
        logits = model(expected["ids"].long(), use_cache=False).logits
    distance = float((logits - expected["logits"]).abs().max() / expected["logits"].abs().max())
    print(f"{name}: the export's logits differ by {distance:.1e}")
    assert distance < 1e-6


def main():
    transformers.logging.set_verbosity_error()
    if len(sys.argv) == 3 and sys.argv[1] == "check":
        for name in FAMILIES:
            check(name, sys.argv[2])
        return
    for name in sys.argv[1:] or FAMILIES:
        make(name)


if __name__ == "__main__":
    main()
