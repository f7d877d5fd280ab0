// Reads and writes special tokens and sampling settings as keys of a GGUF file.
#include <algorithm>
#include <charconv>

#include "weft/models/gguf_config.h"

namespace weft {
namespace {

constexpr const char *kBos = "tokenizer.ggml.bos_token_id", *kPad = "tokenizer.ggml.padding_token_id";
// The ends of a text, of a turn and of a message; llama.cpp stops at each.
constexpr const char* kEnds[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};

constexpr const char *kTemperature = "general.sampling.temp", *kTopK = "general.sampling.top_k", *kTopP = "general.sampling.top_p",
                     *kMinP = "general.sampling.min_p", *kPenalty = "general.sampling.penalty_repeat";

// The id at a key. The largest u32 (-1 as an i32) means none.
std::optional<int64_t> id_at(const Gguf& file, const char* key) {
  const auto id = file.find_integer(key, -1, UINT32_MAX);
  return id && *id >= 0 && *id < INT32_MAX ? id : std::nullopt;
}

std::optional<double> number_in(const Gguf& file, const char* key, double most) {
  const auto value = file.find_number(key);
  if (value && !(*value >= 0 && *value <= most)) fail(ErrorCode::bad_file, file.path(), key, " is ", *value, ", expected 0 to ", most);
  if (!value) return value;
  char text[32];  // 0.95, not 0.949999988079071
  double shortest = *value;
  std::from_chars(text, std::to_chars(text, text + sizeof text, float(*value)).ptr, shortest);
  return shortest;
}

}  // namespace

SpecialIds gguf_special_ids(const Gguf& file) {
  SpecialIds ids;
  ids.bos_id = id_at(file, kBos);
  ids.pad_id = id_at(file, kPad);
  for (const char* key : kEnds)
    if (const auto id = id_at(file, key); id && std::ranges::find(ids.eos_ids, *id) == ids.eos_ids.end()) ids.eos_ids.push_back(*id);
  return ids;
}

void put_special_ids(const SpecialIds& ids, GgufMetadata& metadata) {
  if (ids.eos_ids.size() > std::size(kEnds))
    fail(ErrorCode::unsupported, "export", "the model has ", ids.eos_ids.size(), " end tokens, and a GGUF file names ", std::size(kEnds));
  if (ids.bos_id) metadata.put(kBos, uint32_t(*ids.bos_id));
  for (size_t i = 0; i < ids.eos_ids.size(); ++i) metadata.put(kEnds[i], uint32_t(ids.eos_ids[i]));
  if (ids.pad_id) metadata.put(kPad, uint32_t(*ids.pad_id));
}

// A file with sampling settings turns sampling on.
GenerationConfig gguf_generation_config(const Gguf& file) {
  GenerationConfig g;
  const SpecialIds ids = gguf_special_ids(file);
  g.bos_id = ids.bos_id;
  g.pad_id = ids.pad_id;
  g.eos_ids = ids.eos_ids;
  g.temperature = number_in(file, kTemperature, 1e6);
  g.top_p = number_in(file, kTopP, 1);
  g.min_p = number_in(file, kMinP, 1);
  g.repetition_penalty = number_in(file, kPenalty, 1e6);
  if (g.repetition_penalty == 0) fail(ErrorCode::bad_file, file.path(), kPenalty, " is 0, expected a number above 0 (1: none)");
  g.top_k = file.find_integer(kTopK);
  if (g.temperature || g.top_p || g.min_p || g.top_k) g.do_sample = true;
  return g;
}

void put_generation_config(const GenerationConfig& g, GgufMetadata& metadata) {
  if (g.repetition_penalty) metadata.put(kPenalty, float(*g.repetition_penalty));
  if (!g.do_sample.value_or(false)) return;
  metadata.put(kTemperature, float(g.temperature.value_or(1)));
  if (g.top_k) metadata.put(kTopK, int32_t(*g.top_k));
  if (g.top_p) metadata.put(kTopP, float(*g.top_p));
  if (g.min_p) metadata.put(kMinP, float(*g.min_p));
}

}  // namespace weft
