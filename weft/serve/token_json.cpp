#include "weft/serve/token_json.h"

#include <cmath>
#include <cstdio>

#include "weft/io/tokenizer/utf8.h"

namespace weft::serve {
namespace {

// JSON has no infinity; OpenAI's API uses this number instead.
double json_value(float value) { return std::isfinite(value) ? double(value) : -9999.0; }

std::string_view bytes_of(const Tokenizer* tokenizer, int32_t id) { return tokenizer ? tokenizer->bytes_of(id) : ""; }

OrderedJson entry(const Tokenizer* tokenizer, const IdLogProbability& token) {
  OrderedJson bytes = OrderedJson::array();
  for (char byte : bytes_of(tokenizer, token.id)) bytes.push_back(uint8_t(byte));
  return {{"token", token_label(tokenizer, token.id)}, {"logprob", json_value(token.value)}, {"bytes", std::move(bytes)}};
}

}  // namespace

std::string token_label(const Tokenizer* tokenizer, int32_t id) {
  if (!tokenizer) return std::to_string(id);
  if (tokenizer->is_special(id)) return std::string(tokenizer->token_of(id));
  const std::string_view bytes = tokenizer->bytes_of(id);
  if (first_invalid_utf8(bytes) == bytes.size()) return std::string(bytes);
  std::string label = "bytes:";
  for (char byte : bytes) {
    char text[8];
    std::snprintf(text, sizeof text, "\\x%02x", unsigned(uint8_t(byte)));
    label += text;
  }
  return label;
}

OrderedJson chat_log_probability(const Tokenizer* tokenizer, const TokenLogProbability& token) {
  OrderedJson json = entry(tokenizer, token);
  json["top_logprobs"] = OrderedJson::array();
  for (const IdLogProbability& top : token.top) json["top_logprobs"].push_back(entry(tokenizer, top));
  return json;
}

CompletionLogProbabilities::CompletionLogProbabilities(const Tokenizer* tokenizer, int64_t top) : tokenizer_(tokenizer), tops_(top > 0) {}

void CompletionLogProbabilities::add(const TokenLogProbability& token, bool has_value, int64_t offset) {
  tokens_.push_back(token_label(tokenizer_, token.id));
  values_.push_back(has_value ? OrderedJson(json_value(token.value)) : OrderedJson());
  OrderedJson top = has_value ? OrderedJson::object() : OrderedJson();
  if (has_value) {
    for (const IdLogProbability& one : token.top) top[token_label(tokenizer_, one.id)] = json_value(one.value);
    top[token_label(tokenizer_, token.id)] = json_value(token.value);  // the token itself, even if it is not among the most likely
  }
  top_.push_back(std::move(top));
  offsets_.push_back(offset);
}

OrderedJson CompletionLogProbabilities::json() const {
  return {{"tokens", tokens_}, {"token_logprobs", values_}, {"top_logprobs", tops_ ? top_ : OrderedJson()}, {"text_offset", offsets_}};
}

}  // namespace weft::serve
