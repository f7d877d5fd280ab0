// Reads and writes RoPE scaling as keys and tensors of a GGUF file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/io/gguf.h"
#include "weft/io/gguf_writer.h"
#include "weft/models/gguf_families.h"

namespace weft {

// Tensors of factors that divide the frequencies, F32, one factor per pair: of llama3 scaling, and of Phi-3's longrope.
inline constexpr const char *kGgufRopeFactors = "rope_freqs.weight", *kGgufLongFactors = "rope_factors_long.weight",
                            *kGgufShortFactors = "rope_factors_short.weight";
std::vector<GgufTensor> gguf_rope_tensors(const ModelConfig& config);
bool is_gguf_rope_tensor(const ModelConfig& config, std::string_view name);

// Reads the scaling. `config` already has the sizes, the base and the rotated part; `prefix`: that of the keys ("llama.").
RopeScaling gguf_rope_scaling(const Gguf& file, const GgufFamily& family, const std::string& prefix, const ModelConfig& config);
// Whether llama.cpp supports the config's scaling for the family.
bool has_gguf_rope_scaling(const ModelConfig& config, const GgufFamily& family);
void put_rope_scaling(const ModelConfig& config, const GgufFamily& family, const std::string& prefix, GgufMetadata& metadata);

// The double that prints as the shortest text of this float: 1e-05, not 9.999999747378752e-06.
double shortest_double(double value);

}  // namespace weft
