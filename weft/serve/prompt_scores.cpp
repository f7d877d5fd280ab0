#include "weft/serve/prompt_scores.h"

#include "weft/generate/score.h"
#include "weft/tensor/node.h"

namespace weft::serve {

PromptScores prompt_scores(const Model& model, const std::vector<int32_t>& ids, int64_t top, const std::string& adapter) {
  PromptScores scores;
  if (ids.size() < 2) return scores;
  if (top == 0) {
    const auto values = score(model, {{.prompt = {ids.front()}, .completion = {ids.begin() + 1, ids.end()}}}, {.adapter = adapter}).front();
    for (size_t i = 0; i < values.size(); ++i) scores.push_back({{ids[i + 1], values[i]}, {}});
    return scores;
  }
  check(adapter.empty(), "serve", "the most likely tokens of a prompt with the adapter '", adapter, "' are not there");
  const NoGrad no_grad;
  const int64_t rows = int64_t(ids.size()) - 1, vocabulary = model.config().vocab_size;
  const std::vector<int32_t> inputs(ids.begin(), ids.end() - 1);
  const Tensor logits = model.logits(Tensor::from_host(model.device(), {1, rows}, inputs)).reshape({rows, vocabulary});
  const std::vector<RowTerms> terms = row_terms(logits);
  const auto values = logits.to_host<float>();
  for (int64_t r = 0; r < rows; ++r)
    scores.push_back(token_log_probability(std::span(values).subspan(size_t(r * vocabulary), size_t(vocabulary)), terms[size_t(r)],
                                           ids[size_t(r) + 1], top));
  return scores;
}

}  // namespace weft::serve
