// Any bytes as a tokenizer.json: rejected with one error, or it encodes a text (or rejects a character of it) and decodes the result.
#include "weft/io/tokenizer/tokenizer.h"

#include "tests/fuzz/targets.h"

namespace weft::fuzz {
namespace {

constexpr const char* kText = "Hello  w\u00f6rld 123, it's\n\n<s> e\u0301 \xf0\x9f\x98\x80 [X]\tabc";

void decode_at_once_and_streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) require(id >= 0 && id < tokenizer.vocab_size(), "an id is outside the vocabulary");
  StreamingDecoder stream(tokenizer);
  std::string text;
  for (const int32_t id : ids) text += stream.push(id);
  require(text + stream.finish() == tokenizer.decode(ids), "streamed text differs from text decoded at once");
}

// Every place that cut() finds leaves the ids as they are.
void cut_anywhere(const Tokenizer& tokenizer) {
  const std::string_view text = kText;
  const std::vector<int32_t> whole = tokenizer.encode(text, false);
  for (size_t at = text.size(); (at = tokenizer.cut(text, at - (at > 0)));) {
    std::vector<int32_t> ids = tokenizer.encode(text.substr(0, at), false);
    const std::vector<int32_t> rest = tokenizer.encode_rest(text.substr(at));
    ids.insert(ids.end(), rest.begin(), rest.end());
    require(ids == whole, "a text that was cut has other ids");
  }
}

// A character missing from the vocabulary is an invalid argument; leaving it out must not fail.
void encode(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.encode(kText, true, Tokenizer::Unknown::left_out);
  decode_at_once_and_streamed(tokenizer, ids);
  try {
    ids = tokenizer.encode(kText);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    require(std::string_view(error.what()).find("has no token for the character") != std::string_view::npos, error.what());
    return;
  }
  decode_at_once_and_streamed(tokenizer, ids);
  cut_anywhere(tokenizer);
}

}  // namespace

void tokenizer(std::string_view bytes) {
  try {
    encode(Tokenizer::parse(bytes));
  } catch (const Error& error) {
    require_file_error(error);
  }
}

}  // namespace weft::fuzz
