// Passes of the host's sampler (weft/generate/sampler.h) over a row of logits or of weights, vectorised for the best instruction set of
// the machine. Every instruction set gives the same bits: the exponential is one fixed sequence of float64 operations, none of them fused,
// and sums are of integers.
#pragma once

#include <cstdint>

namespace weft::cpu {

// Elements past its results that a function may overwrite in `out`, `ids` and `weights`: they are written a register at a time.
inline constexpr int64_t kTokenSlack = 16;

// The index of the largest of n >= 1 logits, the lowest of several; -1 if one is NaN or +inf.
int64_t largest_logit(const float* logits, int64_t n);

// Copies the logits above `least`, in their order, and returns their number.
int64_t copy_logits_above(float least, const float* logits, int64_t n, float* out);

// w = floor(2^bits e^((l - largest) / temperature)) of a logit l <= largest, 0 below `least`; bits <= 61. No logit is NaN, and `least` is
// finite.
struct TokenWeights {
  double largest, temperature;
  float least;
  int bits;
};

// Returns the sum of n weights.
uint64_t sum_of_weights(const TokenWeights& of, const float* logits, int64_t n);

struct Weighed {
  uint64_t sum;   // of all n weights
  int64_t count;  // of the weights written
};
// Writes the weights of `from` >= 1 or more, in their order, with their ids: first, first + 1, ...
Weighed write_weights(const TokenWeights& of, const float* logits, int64_t n, int64_t first, uint64_t from, int64_t* ids,
                      uint64_t* weights);

// Weights are below 2^63 in what follows.
struct WeightsAround {
  uint64_t sum_above;  // of the weights above the pivot
  uint64_t equal;      // number of weights equal to it
};
WeightsAround weights_around(uint64_t pivot, const uint64_t* weights, int64_t n);

// Copies the weights in [from, to), in their order, and returns their number. `out` may be `weights`.
int64_t copy_weights(uint64_t from, uint64_t to, const uint64_t* weights, int64_t n, uint64_t* out);

}  // namespace weft::cpu
