#!/usr/bin/env python3
"""Greedy decoding in transformers with a static cache: what `weft bench --model NAME --batch B --context C` measures for Weft.

    python3 bench/peers/transformers_decode.py --model llama-3.2-1b                            # on a GPU, compiled
    python3 bench/peers/transformers_decode.py --model llama-3.2-1b --batch 8 --context 512
    python3 bench/peers/transformers_decode.py --device cpu --model smollm2-135m --tokens 16   # --eager: without torch.compile

The model has random weights of the published shape. The prompt is one forward pass over --context tokens; a step is the forward pass of one
token for each sequence and the choice of the largest logit on the device. Times are medians over the steps after warm-up, of CUDA events on
a GPU.
"""
import argparse
import json
import statistics
import sys
import time

try:
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config, StaticCache
except ImportError:
    sys.exit("transformers_decode.py: PyTorch and transformers are not installed")

MODELS = {
    "smollm2-135m": LlamaConfig(vocab_size=49152, hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
                                intermediate_size=1536, tie_word_embeddings=True, max_position_embeddings=8192),
    "llama-3.2-1b": LlamaConfig(vocab_size=128256, hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                                intermediate_size=8192, tie_word_embeddings=True, max_position_embeddings=131072),
    "qwen2.5-0.5b": Qwen2Config(vocab_size=151936, hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                                intermediate_size=4864, tie_word_embeddings=True, max_position_embeddings=32768),
    "qwen3-0.6b": Qwen3Config(vocab_size=151936, hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
                              head_dim=128, intermediate_size=3072, tie_word_embeddings=True, max_position_embeddings=40960),
    "tiny": LlamaConfig(vocab_size=257, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                        intermediate_size=128, max_position_embeddings=1024),
}
WARM_UP = 4  # steps; the first compiles


class Clock:
    """Milliseconds between begin() and end()."""

    def __init__(self, device):
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device == "cuda" else None

    def begin(self):
        if self.events:
            self.events[0].record()
        self.start = time.perf_counter()

    def end(self):
        if not self.events:
            return (time.perf_counter() - self.start) * 1e3
        self.events[1].record()
        self.events[1].synchronize()
        return self.events[0].elapsed_time(self.events[1])


@torch.inference_mode()
def measure(model, o):
    cache = StaticCache(config=model.config, max_cache_len=o.context + WARM_UP + o.tokens)
    ids = torch.randint(3, model.config.vocab_size, (o.batch, o.context), device=o.device)
    clock, positions = Clock(o.device), torch.arange(o.context, device=o.device)
    prompt = []
    for _ in range(3):
        cache.reset()
        clock.begin()
        logits = model(ids, past_key_values=cache, cache_position=positions, logits_to_keep=1).logits
        prompt.append(clock.end())

    def step(token, position):
        return model(token, past_key_values=cache, cache_position=position).logits[:, -1:].argmax(-1)

    if not o.eager:
        step = torch.compile(step, mode="reduce-overhead" if o.device == "cuda" else "default", fullgraph=True)
    token, steps = logits[:, -1:].argmax(-1), []
    for i in range(WARM_UP + o.tokens):
        position = torch.tensor([o.context + i], device=o.device)
        clock.begin()
        token = step(token, position).clone()  # the next replay of a CUDA graph overwrites its output
        steps.append(clock.end())
    return statistics.median(prompt), statistics.median(steps[WARM_UP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="llama-3.2-1b", choices=MODELS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--dtype", default="bf16", choices=["f32", "bf16"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64, help="steps that are timed")
    parser.add_argument("--threads", type=int, help="of the CPU")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    if o.threads:
        torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[o.dtype]
    model = AutoModelForCausalLM.from_config(MODELS[o.model], dtype=dtype, attn_implementation="sdpa").to(o.device).eval()
    prompt, step = measure(model, o)
    result = {"model": o.model, "device": o.device, "dtype": o.dtype, "batch": o.batch, "context": o.context, "torch": torch.__version__,
              "compiled": not o.eager, "prompt_ms": prompt, "step_ms": step, "tokens_per_second": o.batch / step * 1e3}
    if o.json:
        print(json.dumps(result))
    else:
        print(f"{o.model} {o.dtype} on {o.device}, torch {torch.__version__}{', eager' if o.eager else ', compiled'}: "
              f"prompt of {o.context} tokens {prompt:.2f} ms, step of batch {o.batch} {step:.3f} ms, {result['tokens_per_second']:.1f} tokens/s")


if __name__ == "__main__":
    main()
