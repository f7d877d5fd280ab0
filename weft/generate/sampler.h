// Samples the next token from a row of logits l. The steps and their order are those of transformers:
//
//   repetition penalty r   l_t = l_t < 0 ? r l_t : l_t / r, once for each token t of the prompt and the continuation
//   temperature T          l = l / T.   T = 0 is greedy: the largest l (the lowest id of several), without the steps below
//   top-k                  keeps l_t >= the k-th largest, including ties
//   top-p                  keeps the fewest most likely tokens whose probability reaches p; among equals the lower id
//   min-p                  keeps the tokens at least min_p times as likely as the most likely one
//
// and then one draw from the softmax of the remaining tokens. The draw depends only on the seed, the prompt, the number of its earlier
// occurrences and the position: not on threads or on other sequences.
//
// Weights are integers, w_t = floor(2^s exp((l_t - largest) / T)) with s = 62 - (bits of the vocabulary's size), so sums neither round nor
// overflow and are the same in every order, on any device. A token that is less likely than the most likely one by a factor below 2^-s
// (2^-44 for 128k tokens) has weight 0 and is never drawn.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft {

namespace cpu {
struct TokenWeights;
}

struct SamplingOptions {
  double temperature = 0;         // 0: greedy
  int64_t top_k = 0;              // 0: all
  double top_p = 1;               // 1: all
  double min_p = 0;               // 0: all
  double repetition_penalty = 1;  // 1: none
  uint64_t seed = 0;
};

// Throws, naming the option and its value, when one is out of range.
void validate(const SamplingOptions& options);

// The position in the random stream at which a token is drawn.
struct DrawPoint {
  uint64_t prompt = 0;      // prompt_key() of the prompt's ids
  uint32_t occurrence = 0;  // number of earlier occurrences of the same prompt
  uint32_t position = 0;    // of the new token within its sequence, prompt included
};

// A hash of the ids: different prompts have different draws.
uint64_t prompt_key(std::span<const int32_t> ids);

class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  // `history`: the prompt and the continuation so far; ids outside the vocabulary are ignored. Throws, naming the position, if a logit
  // is NaN or +inf, or if all are -inf.
  int32_t next(std::span<const float> logits, std::span<const int32_t> history, DrawPoint point);

 private:
  // The collected tokens that remain: those with a weight above `least`, and the first `equal` of those with the weight `least`.
  struct Kept {
    uint64_t least = 0, equal = 0;
    uint64_t sum = 0;  // of their weights
  };
  std::span<const float> penalise(std::span<const float> logits, std::span<const int32_t> history);
  float least_of_top_k(std::span<const float> logits);
  uint64_t collect(std::span<const float> logits, const cpu::TokenWeights& of, uint64_t from);
  Kept at_least(uint64_t weight) const;
  Kept top_p_of(uint64_t all);
  std::pair<uint64_t, uint64_t> weight_that_reaches(uint64_t wanted);
  int32_t draw_of_all(std::span<const float> logits, const cpu::TokenWeights& of, DrawPoint point);
  int32_t reach(Kept kept, uint64_t sum, uint64_t target) const;

  SamplingOptions options_;
  std::vector<float> penalised_, best_;
  std::vector<int64_t> ids_;  // of the collected tokens, ascending
  std::vector<uint64_t> weights_, selected_;
  size_t count_ = 0;  // collected tokens; the vectors have room for more
  std::vector<uint64_t> sums_;
};

}  // namespace weft
