// cos and sin of the angles of rotary position embedding (Su et al., 2021), R rotary dimensions:
//
//   angle(p, i) = p f_i,   f_i = theta^(-2 i / R),   p a position, i in [0, R / 2)
//
// computed on the host in float64 and rounded once to f32. A scaling changes the frequencies f for contexts longer than c, the original
// context of the model:
//
//   linear:    f / factor
//   llama3:    with wavelength w = 2 pi / f
//                w > c / low_freq_factor:   f / factor
//                w < c / high_freq_factor:  f
//                between:                   f ((1 - s) / factor + s),
//                                           s = (c / w - low_freq_factor) / (high_freq_factor - low_freq_factor)
//   dynamic:   theta becomes theta (factor L / c - (factor - 1))^(R / (R - 2)) for a declared context L above c   (NTK)
//   yarn:      f ((1 - s) / factor + s),   s = 1 - clamp((i - low) / (high - low), 0, 1)   (Peng et al., 2023),
//              low and high: the i whose pairs make beta_fast and beta_slow turns within c positions,
//              rounded outwards if `truncate`
//   longrope:  f / long_factors[i] for a declared context L above c, else f / short_factors[i]   (Ding et al., 2024)
//
// yarn and longrope multiply cos and sin by attention_factor. L is declared once for a model (ModelConfig::max_positions), so the values of
// a position do not depend on the current length of a sequence.
#pragma once

#include <vector>

#include "weft/tensor/tensor.h"

namespace weft {

struct RopeScaling {
  enum class Kind { none, llama3, linear, dynamic, yarn, longrope };
  Kind kind = Kind::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_context = 0;                               // c; unused for linear
  double attention_factor = 1;                                // yarn, longrope
  double beta_fast = 32, beta_slow = 1;                       // yarn
  bool truncate = true;                                       // yarn
  std::vector<double> short_factors = {}, long_factors = {};  // longrope: R / 2 each
  bool operator==(const RopeScaling&) const = default;
};

struct RopeTable {
  Tensor cos, sin;  // [positions, R / 2], f32
};

// The R / 2 frequencies in float64, scaled. `context`: L.
std::vector<double> rope_frequencies(int64_t rotary_dims, double theta, const RopeScaling& scaling = {}, int64_t context = 0);

struct RopeTableOptions {
  RopeScaling scaling = {};
  int64_t context = 0;  // L
  // Scale of queries that grows with their position p: cos and sin are multiplied by 1 + growth log(1 + floor(p / original_context)).
  double growth = 0;
};

RopeTable rope_table(Device& device, int64_t positions, int64_t rotary_dims, double theta, const RopeTableOptions& options);
RopeTable rope_table(Device& device, int64_t positions, int64_t rotary_dims, double theta, const RopeScaling& scaling = {});

}  // namespace weft
