#include "weft/data/byte_level_json.h"

#include <algorithm>
#include <set>

#include "weft/base/check.h"
#include "weft/data/tokenizer_json.h"
#include "weft/io/tokenizer/byte_alphabet.h"

namespace weft {
namespace {

using Json = OrderedJson;

std::string spelled(std::string_view bytes) {
  std::string out;
  for (char byte : bytes) out += letter_of_byte(uint8_t(byte));
  return out;
}

}  // namespace

std::string with_special_tokens(const std::string& tokenizer_json, const std::string& file, int32_t next_id,
                                const std::vector<std::string>& special) {
  Json all = Json::parse(tokenizer_json);
  if (!all.contains("added_tokens") || all["added_tokens"].is_null()) all["added_tokens"] = Json::array();
  Json& vocab = all["model"]["vocab"];
  if (!vocab.is_object()) fail(ErrorCode::unsupported, file, "model.vocab is ", vocab.type_name(), ", new tokens need an object");
  for (const std::string& token : special) {
    const auto same = [&](const Json& added) { return added.value("content", "") == token; };
    if (std::ranges::any_of(all["added_tokens"], same)) continue;
    const int32_t id = vocab.contains(token) ? vocab[token].get<int32_t>() : next_id++;
    vocab[token] = id;
    all["added_tokens"].push_back(added_token(size_t(id), token));
  }
  return all.dump(1) + "\n";
}

std::string byte_level_json(const std::vector<std::string>& tokens, const std::vector<std::string>& special) {
  Json vocab = Json::object(), merges = Json::array(), added = Json::array();
  for (const std::string& token : tokens) vocab[spelled(token)] = vocab.size();
  for (const std::string& token : special) {
    const size_t id = vocab.size();
    vocab[token] = id;
    added.push_back(added_token(id, token));
  }
  const auto know = [&](const std::string& part) {
    if (!vocab.contains(part)) vocab[part] = vocab.size();
  };
  std::set<std::string> merged;
  for (const std::string& token : tokens)
    for (size_t i = 1; i < token.size(); ++i) {
      const std::string left = spelled(token.substr(0, i)), right = spelled(token.substr(i, 1));
      know(left);
      know(right);
      know(left + right);
      if (merged.insert(left + right).second) merges.push_back({left, right});
    }
  return tokenizer_json({.added = added,
                         .pre_tokenizer = byte_level_part(false),
                         .post_processor = nullptr,
                         .decoder = byte_level_part(false),
                         .vocab = vocab,
                         .merges = merges});
}

}  // namespace weft
