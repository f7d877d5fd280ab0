# needs: torch==2.15.0 transformers==5.23.0 safetensors==0.8.0 numpy
"""Golden data of a long context: the logits after 100 000 tokens of a tiny random Llama, as transformers computes them in float32.

    scripts/make-golden long_context            makes tests/golden/long_context

weights ~ N(0, 0.3), gains of norms 1 + N(0, 0.3); token i has the id (i * 2654435761 mod 2^32) >> 16, modulo 61.
"""
import pathlib
import sys

sys.path.pop(0)  # this folder has a tokenizers.py, which is not the package of that name

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "long_context"
TOKENS = 100_000


def main():
    config = transformers.LlamaConfig(vocab_size=61, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
                                      intermediate_size=24, max_position_embeddings=131072, bos_token_id=0, eos_token_id=1,
                                      rope_parameters=dict(rope_type="default", rope_theta=1000000.0), tie_word_embeddings=False)
    config._attn_implementation = "sdpa"
    model = transformers.LlamaForCausalLM(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator) + (1.0 if parameter.dim() == 1 else 0.0))
        ids = torch.tensor([[(i * 2654435761 % 2**32 >> 16) % 61 for i in range(TOKENS)]])
        logits = model(ids, use_cache=False, logits_to_keep=1).logits[0, -1]
    model.save_pretrained(FOLDER)
    note = f"transformers {transformers.__version__}, torch {torch.__version__}; scripts/golden/long_context.py says what the values are"
    save_file({"logits": logits.contiguous()}, FOLDER / "expected.safetensors", {"note": note})
    print(f"largest logit {float(logits.abs().max()):.3f}")


main()
