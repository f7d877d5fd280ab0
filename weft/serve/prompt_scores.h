// The log-probabilities of a prompt's own tokens.
#pragma once

#include <span>
#include <string>

#include "weft/models/model.h"
#include "weft/serve/job.h"

namespace weft::serve {

// Logits of a prompt on the host, at most: those of the `top` most likely tokens need all of them at once.
inline constexpr int64_t kMostPromptLogits = int64_t(1) << 29;  // 2 GiB of f32

// Of each token from the second on, given those before it, with the `top` most likely ones at its place. The values have the bits of
// score() (weft/generate/score.h), which computes them if top is 0. `adapter`: of the model's; only for a top of 0.
PromptScores prompt_scores(const Model& model, const std::vector<int32_t>& ids, int64_t top, const std::string& adapter);

}  // namespace weft::serve
