// The keys of a model's config, in one table for reading and writing.
#pragma once

#include <algorithm>
#include <string_view>

#include "weft/models/gguf_families.h"

namespace weft::gguf_keys {

// Keys after the prefix "<family>.".
struct IntegerKey {
  const char* key;
  int64_t ModelConfig::* member;
  bool required;
};
inline constexpr IntegerKey kIntegers[] = {
    {"context_length", &ModelConfig::max_positions, true},
    {"embedding_length", &ModelConfig::hidden_size, true},
    {"block_count", &ModelConfig::layers, true},
    {"feed_forward_length", &ModelConfig::intermediate_size, true},
    {"attention.head_count", &ModelConfig::heads, true},
    {"attention.head_count_kv", &ModelConfig::kv_heads, false},
    {"attention.key_length", &ModelConfig::head_dim, false},
};
inline constexpr const char *kValueLength = "attention.value_length", *kRotated = "rope.dimension_count",
                            *kWindow = "attention.sliding_window", *kWindowPattern = "attention.sliding_window_pattern",
                            *kExperts = "expert_count", *kExpertsOfToken = "expert_used_count", *kExpertSize = "expert_feed_forward_length",
                            *kGrowth = "attention.temperature_scale", *kScalingType = "rope.scaling.type";

inline bool has_number(const GgufFamily& family, std::string_view key) {
  return std::ranges::any_of(family.numbers, [&](const GgufNumber& number) { return key == number.key; });
}
inline bool has_rope(const GgufFamily& family) { return has_number(family, "rope.freq_base"); }

}  // namespace weft::gguf_keys
