// cos and sin of the angles of rotary position embedding (Su et al., 2021), R rotary dimensions:
//
//   angle(p, i) = p theta^(-2 i / R),   p a position, i in [0, R / 2)
//
// computed on the host in float64 and rounded once to f32. llama3 scaling stretches the slow frequencies f for longer
// contexts: with wavelength w = 2 pi / f and c the context the model was first trained on,
//
//   w > c / low_freq_factor:   f / factor
//   w < c / high_freq_factor:  f
//   between:                   f ((1 - s) / factor + s),   s = (c / w - low_freq_factor) / (high_freq_factor - low_freq_factor)
#pragma once

#include "weft/tensor/tensor.h"

namespace weft {

struct RopeScaling {
  enum class Kind { none, llama3 };
  Kind kind = Kind::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_context = 0;
  bool operator==(const RopeScaling&) const = default;
};

struct RopeTable {
  Tensor cos, sin;  // [positions, R / 2], f32
};

// The R / 2 frequencies in float64, scaled.
std::vector<double> rope_frequencies(int64_t rotary_dims, double theta, const RopeScaling& scaling = {});

RopeTable rope_table(Device& device, int64_t positions, int64_t rotary_dims, double theta, const RopeScaling& scaling = {});

}  // namespace weft
