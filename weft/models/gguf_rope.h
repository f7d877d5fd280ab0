// Rotary positions as keys and tensors of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "weft/io/gguf.h"
#include "weft/io/gguf_writer.h"
#include "weft/models/gguf_families.h"

namespace weft {

// Factors by which llama3 scaling divides the frequencies of the rotary embedding: the tensor rope_freqs.weight.
inline constexpr const char* kGgufRopeFactors = "rope_freqs.weight";
std::vector<float> gguf_rope_factors(const ModelConfig& config);

// The scaling of a file, for a config with the sizes and the base. `prefix`: of its keys ("llama.").
RopeScaling gguf_rope_scaling(const Gguf& file, const GgufFamily& family, const std::string& prefix, const ModelConfig& config);
// Whether llama.cpp computes the config's scaling.
bool has_gguf_rope_scaling(const ModelConfig& config, const GgufFamily& family);
void put_rope_scaling(const ModelConfig& config, const GgufFamily& family, const std::string& prefix, GgufMetadata& metadata);

// A float as the double of its shortest spelling: 1e-05, not 9.999999747378752e-06.
double shortest_double(double value);

}  // namespace weft
