// Texts of tasks as tokens, in the way of lm-eval: where a prompt ends and its continuation begins, which token begins a text, and what is
// left of a text that is longer than the model's context.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/vocabulary.h"
#include "weft/generate/generator.h"
#include "weft/generate/score.h"
#include "weft/models/folder.h"

namespace weft {

struct EncodedPair {
  ScoredPair ids;
  bool truncated = false;  // tokens were left out at the beginning
};

class TaskTokens {
 public:
  // The tokenizer of a folder, which must outlive it, or the vocabulary of a run.
  explicit TaskTokens(const ModelFolder& folder);
  explicit TaskTokens(std::shared_ptr<const Vocabulary> vocabulary);

  // A prompt and its continuation. White space at the end of the prompt belongs to the continuation; prompt and continuation are tokenised
  // together, and the continuation has the tokens after as many as the prompt alone has. An empty prompt is the token that begins a text.
  // Of more than `context` tokens the first ones of the prompt are left out.
  EncodedPair pair(std::string_view prompt, std::string_view continuation, int64_t context, const std::string& where) const;

  // The windows of a text: each token is predicted once, from the token that begins a text and up to `context` tokens before it.
  std::vector<ScoredPair> windows(std::string_view text, int64_t context, const std::string& where) const;

  // A prompt to continue, its last `most` tokens.
  EncodedPair prompt(std::string_view text, int64_t most, const std::string& where) const;

  const std::vector<int32_t>& end_ids() const { return end_ids_; }
  const Generator::TokenTexts& texts() const { return texts_; }

 private:
  using Ids = std::vector<int32_t>;
  Ids encode(std::string_view text, const std::string& where, bool special = true) const;
  int32_t first_token(const std::string& where) const;

  std::function<void(std::string_view text, const std::string& where, Ids& ids)> encode_;  // without the template's tokens
  Ids before_;                                                                             // of the template
  std::optional<int32_t> prefix_;                                                          // begins a text: BOS, else EOS
  std::string prefix_text_;
  Ids end_ids_;
  int64_t vocabulary_ = 0;
  Generator::TokenTexts texts_;
};

}  // namespace weft
