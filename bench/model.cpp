#include "bench/model.h"

#include <algorithm>
#include <chrono>

#include "bench/between.h"
#include "weft/backends/counting/counting_device.h"
#include "weft/backends/cpu/system_memory.h"
#include "weft/base/parallel.h"
#include "weft/generate/engine.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/tensor/node.h"
#include "weft/tile/cpu/caches.h"
#include "weft/train/setup.h"

namespace weft::bench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> times) {
  check(!times.empty(), "bench", "no step was timed");
  std::nth_element(times.begin(), times.begin() + int64_t(times.size() / 2), times.end());
  return times[times.size() / 2];
}

std::vector<int32_t> some_prompt(const Model& model, int64_t tokens) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens; ++i) ids.push_back(int32_t((i + 1) * 7919 % model.config().vocab_size));
  return ids;
}

bool has_int8_weights(const Model& model) {
  return std::ranges::any_of(model.parameters(), [](const NamedTensor& p) { return p.tensor.dtype() == DType::u8; });
}

// Bytes of weights that a step reads, those on huge pages and the others. An embedding that is not the head is read one row at a
// time.
struct WeightBytes {
  double huge = 0, small = 0;
};

WeightBytes weight_bytes(const Model& model) {
  const bool tied = model.config().tie_embeddings, int8 = has_int8_weights(model);
  WeightBytes sum;
  for (const NamedTensor& p : model.parameters()) {
    const bool table = p.name.ends_with("embed_tokens.weight") || p.name == "transformer.wte.weight";
    if (p.name == "transformer.wpe.weight" || (!tied && table)) continue;
    // An int8 matrix has a scale of two bytes per 32 numbers. A tied embedding counts too: the int8 head is made of it.
    const bool numbers = p.tensor.dtype() == DType::u8 || (int8 && table);
    const double bytes = double(p.tensor.numel()) * (numbers ? 1 + 2.0 / double(kInt8Group) : double(size_of(p.tensor.dtype())));
    (bytes >= double(cpu::SystemMemory::kHugeFrom) ? sum.huge : sum.small) += bytes;
  }
  return sum;
}

// Runs tokens of `batch` sequences repeatedly, after a cache that is already filled.
class Reading {
 public:
  Reading(const Model& model, int64_t before, int64_t tokens, int64_t batch = 1)
      : model_(model), before_(before), ids_(prompts(model, batch, tokens)), cache_(model.make_cache(batch, before + tokens)) {
    constexpr int64_t kChunk = 4096;  // tokens per pass; the activations of all tokens would take gigabytes
    for (int64_t first = 0, count = std::max<int64_t>(1, kChunk / batch); first < before; first += count)
      model.last_logits(prompts(model, batch, std::min(count, before - first)), cache_);
  }
  void operator()() {
    cache_.truncate(before_);
    model_.last_logits(ids_, cache_);
    model_.device().synchronize();
  }

 private:
  static Tensor prompts(const Model& model, int64_t batch, int64_t tokens) {
    return Tensor::from_host(model.device(), {batch, tokens}, some_prompt(model, batch * tokens));
  }

  const Model& model_;
  const int64_t before_;
  Tensor ids_;
  KvCache cache_;
};

Breakdown reading_by_op(const Model& model, int threads, int64_t before, int64_t tokens, int64_t batch = 1) {
  constexpr int kTimes = 5;
  const auto device = counting::open_device(threads);
  const auto planned = make_planned_model({.dtype = std::string(name(model.dtype()))}, model.config(), *device);
  Reading counted(*planned, before, tokens, batch), timed(model, before, tokens, batch);
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

// Bytes of the keys and values of one sequence.
double cache_bytes(const Model& model, int64_t positions) {
  const ModelConfig& c = model.config();
  return 2.0 * double(c.layers * c.kv_heads * c.head_dim * positions) * double(size_of(model.dtype()));
}

constexpr int64_t kPromptChunk = 4096;

// New tokens of the first sequence: one step after each chunk of the other prompts, then the timed ones.
int64_t most_new_tokens(const ModelSizes& sizes) { return sizes.new_tokens + sizes.batch * ceil_div(sizes.prompt_tokens, kPromptChunk); }

// The median time from one step to the next, over the steps that decode all sequences.
double step_time(const Model& model, const ModelSizes& sizes, ModelResult::Memory& memory) {
  const int64_t most = most_new_tokens(sizes), chunks = ceil_div(sizes.prompt_tokens, kPromptChunk);
  Engine engine(model, {.sequences = sizes.batch, .positions = sizes.prompt_tokens + most, .prompt_chunk = kPromptChunk});
  memory.pool = engine.pool_bytes();
  for (int64_t b = 0; b < sizes.batch; ++b) {
    std::vector<int32_t> prompt = some_prompt(model, sizes.prompt_tokens);
    prompt[0] = int32_t(b % model.config().vocab_size);  // without a shared prefix every prompt is computed
    engine.add(std::move(prompt), {.sampling = sizes.sampling, .max_tokens = most - b * chunks});
  }
  std::vector<double> times;
  while (!engine.idle()) {
    const double begin = now();
    const int64_t before = engine.times().step_tokens;
    engine.step();
    if (engine.times().step_tokens - before == sizes.batch) times.push_back(now() - begin);
  }
  memory.peak = model.device().pool().stats().high_water;
  return median(times);
}

ModelResult measure_decode(const Model& model, Ceilings& ceilings, const ModelSizes& sizes) {
  const WeightBytes bytes = weight_bytes(model);
  const double cached = double(sizes.batch) * cache_bytes(model, sizes.prompt_tokens + sizes.new_tokens / 2);
  ModelResult result{.what = "decode",
                     .dtype = std::string(name(model.dtype())),
                     .ceiling = "read_gbps",
                     .tokens = double(sizes.batch),
                     .cost = {bytes.huge + bytes.small + cached, 0},
                     .wanted = sizes.batch == 1 ? kDecodeWanted : 0,
                     .breakdown = {},
                     .memory = {.model = model.device().pool().stats().in_use}};
  measure_between(
      result,
      [&] {
        return (bytes.huge + cached) / ceilings.measure(Ceiling::read, cpu::kBenchOutOfCache) +
               bytes.small / ceilings.measure(Ceiling::read_small, cpu::kBenchOutOfCache);
      },
      [&] { return step_time(model, sizes, result.memory); });
  return result;
}

}  // namespace

double prefill_flops(const ModelConfig& c, int64_t T) {
  const double C = double(c.hidden_size), q = double(c.heads * c.head_dim), kv = double(c.kv_heads * c.head_dim),
               F = double(c.intermediate_size);
  const double mlp = (c.architecture == Architecture::gpt2 ? 2 : 3) * C * F, projections = 2 * C * q + 2 * C * kv;
  const double mixture = C * double(c.experts) + 3 * C * double(c.expert_size) * double(c.experts_per_token);
  const double attention = 4 * q * double(T) * double(T + 1) / 2, sparse = double(c.layers_with_experts()), layers = double(c.layers);
  const double linear = layers * projections + (layers - sparse) * mlp + sparse * mixture;
  return 2 * linear * double(T) + layers * attention + 2 * C * double(c.vocab_size);
}

std::vector<ModelResult> measure_model(const Model& model, Ceilings& ceilings, int threads, const ModelSizes& sizes) {
  const int64_t prompt_tokens = sizes.prompt_tokens, new_tokens = sizes.new_tokens, batch = sizes.batch;
  const int64_t context = model.config().max_positions;
  check(batch >= 1, "bench", "a batch of ", batch, " sequences, expected 1 or more");
  check(prompt_tokens >= 1 && new_tokens >= 8 && prompt_tokens + most_new_tokens(sizes) <= context, "bench", "a prompt of ", prompt_tokens,
        " tokens and ", most_new_tokens(sizes), " new tokens do not fit in the model's context length of ", context);
  const NoGrad no_grad;
  std::vector<ModelResult> results = {measure_prefill(model, ceilings, prompt_tokens), measure_decode(model, ceilings, sizes)};
  if (has_int8_weights(model)) return results;  // the counting device has no int8 matmul
  results[0].breakdown = reading_by_op(model, threads, 0, prompt_tokens);
  results[1].breakdown = reading_by_op(model, threads, prompt_tokens, 1, batch);
  return results;
}

}  // namespace weft::bench
