// The log-probabilities of given completions, by the training forward pass (Model::loss). Completions that a Generator sampled have the
// bits it recorded.
//
//   const auto scores = score(*model, {{.prompt = {1, 2, 3}, .completion = {4, 5}}});   // scores[0]: two numbers
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/models/model.h"

namespace weft {

struct ScoredPair {
  std::vector<int32_t> prompt, completion;  // token ids; the prompt has at least one
};

struct ScoreOptions {
  int64_t batch = 8;           // pairs of one pass at most, padded to one length; their number changes no bits
  int64_t pass_tokens = 8192;  // tokens of one pass at most, padding included; a longer pair is a pass of its own
  std::string adapter = {};    // a name in Model::named_adapters(); empty: none
};

// One list per pair, one log-probability per token of its completion. Records no gradient. Throws, naming the pair and the value, if an id
// is not in the vocabulary, a prompt is empty, or a pair does not fit in the model's context.
std::vector<std::vector<float>> score(const Model& model, const std::vector<ScoredPair>& pairs, const ScoreOptions& options = {});

}  // namespace weft
