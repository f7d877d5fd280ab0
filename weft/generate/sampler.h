// Samples the next token from a row of logits l. The steps and their order are those of transformers:
//
//   repetition penalty r   l_t = l_t < 0 ? r l_t : l_t / r, once for each token t of the prompt and the continuation
//   temperature T          l = l / T.   T = 0 is greedy: the largest l (the lowest id of several), without the steps below
//   top-k                  keeps l_t >= the k-th largest, including ties
//   top-p                  keeps the fewest most likely tokens whose probability reaches p; among equals the lower id
//   min-p                  keeps the tokens at least min_p times as likely as the most likely one
//
// and then one draw from the softmax of those that are left. The draw is a function of the seed, the prompt, the number of its earlier
// occurrences and the position alone; probabilities are float64 sums in the order of ids. A token does not depend on threads or on
// other sequences.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft {

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
  std::span<const float> penalise(std::span<const float> logits, std::span<const int32_t> history);
  void collect(std::span<const float> logits, float largest);
  void keep_top_p();
  template <class F>
  void keep(F wanted);
  int32_t draw(DrawPoint point) const;

  SamplingOptions options_;
  std::vector<float> penalised_, best_;
  std::vector<int32_t> ids_;     // kept so far, ascending
  std::vector<double> weights_;  // of ids_, not normalised: exp((l - largest) / T)
  std::vector<std::pair<double, int32_t>> ranked_;
};

}  // namespace weft
