// Log-probabilities as JSON of OpenAI's two APIs. Numbers have enough digits to read back as the same bits.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "weft/generate/log_probability.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft::serve {

using OrderedJson = nlohmann::ordered_json;

// The label of a token: the name of a special token, the text of whole characters, or "bytes:\xe2\x80" for a part of a character. Without a
// tokenizer: the id as text.
std::string token_label(const Tokenizer* tokenizer, int32_t id);

// An element of "content": {"token", "logprob", "bytes", "top_logprobs"}.
OrderedJson chat_log_probability(const Tokenizer* tokenizer, const TokenLogProbability& token);

// "logprobs" of a completion: lists of tokens, their log-probabilities, the most likely ones and offsets into the text.
class CompletionLogProbabilities {
 public:
  CompletionLogProbabilities(const Tokenizer* tokenizer, int64_t top);

  // has_value is false for the first token of a text. `offset`: characters of the text before the token (weft/serve/text_offsets.h).
  void add(const TokenLogProbability& token, bool has_value, int64_t offset);
  OrderedJson json() const;

 private:
  const Tokenizer* tokenizer_;
  const bool tops_;
  OrderedJson tokens_ = OrderedJson::array(), values_ = OrderedJson::array(), top_ = OrderedJson::array(), offsets_ = OrderedJson::array();
};

}  // namespace weft::serve
