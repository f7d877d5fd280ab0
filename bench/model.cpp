#include "bench/model.h"

#include <algorithm>
#include <chrono>

#include "bench/between.h"
#include "weft/backends/counting/counting_device.h"
#include "weft/backends/cpu/system_memory.h"
#include "weft/generate/generator.h"
#include "weft/tensor/node.h"
#include "weft/tile/cpu/caches.h"
#include "weft/train/setup.h"

namespace weft::bench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + int64_t(times.size() / 2), times.end());
  return times[times.size() / 2];
}

std::vector<int32_t> some_prompt(const Model& model, int64_t tokens) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens; ++i) ids.push_back(int32_t((i + 1) * 7919 % model.config().vocab_size));
  return ids;
}

// Bytes of weights that a step reads, those on huge pages and the others. An embedding that is not the head is read one row at a
// time.
struct WeightBytes {
  double huge = 0, small = 0;
};

WeightBytes weight_bytes(const Model& model) {
  const bool tied = model.config().tie_embeddings;
  WeightBytes sum;
  for (const NamedTensor& p : model.parameters()) {
    if (p.name == "transformer.wpe.weight" || (!tied && p.name.ends_with("embed_tokens.weight"))) continue;
    const double bytes = double(p.tensor.numel() * size_of(p.tensor.dtype()));
    (bytes >= double(cpu::SystemMemory::kHugeFrom) ? sum.huge : sum.small) += bytes;
  }
  return sum;
}

// Tokens after a filled cache, decoded repeatedly.
class Reading {
 public:
  Reading(const Model& model, int64_t before, int64_t tokens)
      : model_(model), before_(before), ids_(prompt(model, tokens)), cache_(model.make_cache(1, before + tokens)) {
    if (before > 0) model.last_logits(prompt(model, before), cache_);
  }
  void operator()() {
    cache_.truncate(before_);
    model_.last_logits(ids_, cache_);
    model_.device().synchronize();
  }

 private:
  static Tensor prompt(const Model& model, int64_t tokens) {
    return Tensor::from_host(model.device(), {1, tokens}, some_prompt(model, tokens));
  }

  const Model& model_;
  const int64_t before_;
  Tensor ids_;
  KvCache cache_;
};

Breakdown reading_by_op(const Model& model, int threads, int64_t before, int64_t tokens) {
  constexpr int kTimes = 5;
  const auto device = counting::open_device(threads);
  const auto planned = make_planned_model({.dtype = std::string(name(model.dtype()))}, model.config(), *device);
  Reading counted(*planned, before, tokens), timed(model, before, tokens);
  counting::counts(*device).reset();
  counted();
  return break_down(model.device(), kTimes, counting::counts(*device).kernels(), [&] { timed(); });
}

ModelResult measure_prefill(const Model& model, Ceilings& ceilings, int64_t tokens) {
  const bool dot = model.dtype() == DType::bf16 && ceilings.measure(Ceiling::bf16_dot, 0) > 0;
  const Ceiling ceiling = dot ? Ceiling::bf16_dot : Ceiling::fma;
  ModelResult result{.what = "prefill",
                     .dtype = std::string(name(model.dtype())),
                     .ceiling = std::string(name(ceiling)),
                     .tokens = double(tokens),
                     .cost = {0, prefill_flops(model.config(), tokens)},
                     .wanted = kPrefillWanted,
                     .breakdown = {}};
  Reading reading(model, 0, tokens);
  measure_between(
      result, [&] { return result.cost.flops / ceilings.measure(ceiling, 0); }, [&] { return median_time([&] { reading(); }, 1.0); });
  return result;
}

ModelResult measure_decode(const Model& model, Ceilings& ceilings, int64_t prompt_tokens, int64_t new_tokens) {
  const WeightBytes bytes = weight_bytes(model);
  ModelResult result{.what = "decode",
                     .dtype = std::string(name(model.dtype())),
                     .ceiling = "read_gbps",
                     .tokens = 1,
                     .cost = {bytes.huge + bytes.small, 0},
                     .wanted = kDecodeWanted,
                     .breakdown = {}};
  Generator generator(model, {.max_tokens = new_tokens});
  measure_between(
      result,
      [&] {
        return bytes.huge / ceilings.measure(Ceiling::read, cpu::kBenchOutOfCache) +
               bytes.small / ceilings.measure(Ceiling::read_small, cpu::kBenchOutOfCache);
      },
      [&] {
        std::vector<double> times;
        double last = 0;
        generator.run({some_prompt(model, prompt_tokens)}, [&](const NewToken&) {
          const double at = now();
          if (last > 0) times.push_back(at - last);
          last = at;
        });
        return median(times);
      });
  return result;
}

}  // namespace

double prefill_flops(const ModelConfig& c, int64_t T) {
  const double C = double(c.hidden_size), q = double(c.heads * c.head_dim), kv = double(c.kv_heads * c.head_dim),
               F = double(c.intermediate_size);
  const double mlp = (c.architecture == Architecture::gpt2 ? 2 : 3) * C * F, linear = 2 * C * q + 2 * C * kv + mlp;
  const double attention = 4 * q * double(T) * double(T + 1) / 2;
  return double(c.layers) * (2 * linear * double(T) + attention) + 2 * C * double(c.vocab_size);
}

std::vector<ModelResult> measure_model(const Model& model, Ceilings& ceilings, int threads, int64_t prompt_tokens, int64_t new_tokens) {
  const int64_t context = model.config().max_positions;
  check(prompt_tokens >= 1 && new_tokens >= 8 && prompt_tokens + new_tokens <= context, "bench", "a prompt of ", prompt_tokens,
        " tokens and ", new_tokens, " new tokens (at least 8) do not fit in the model's context length of ", context);
  const NoGrad no_grad;
  std::vector<ModelResult> results = {measure_prefill(model, ceilings, prompt_tokens),
                                      measure_decode(model, ceilings, prompt_tokens, new_tokens)};
  results[0].breakdown = reading_by_op(model, threads, 0, prompt_tokens);
  results[1].breakdown = reading_by_op(model, threads, prompt_tokens, 1);
  return results;
}

}  // namespace weft::bench
