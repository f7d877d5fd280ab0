#include "weft/data/byte_level_json.h"

#include <nlohmann/json.hpp>
#include <set>

#include "weft/io/tokenizer/byte_alphabet.h"

namespace weft {
namespace {

std::string spelled(std::string_view bytes) {
  std::string out;
  for (char byte : bytes) out += letter_of_byte(uint8_t(byte));
  return out;
}

}  // namespace

std::string byte_level_json(const std::vector<std::string>& tokens, const std::string& special) {
  using Json = nlohmann::ordered_json;
  Json vocab = Json::object(), merges = Json::array(), added = Json::array();
  for (const std::string& token : tokens) vocab[spelled(token)] = vocab.size();
  if (!special.empty()) {
    const size_t id = vocab.size();
    vocab[special] = id;
    added.push_back({{"id", id},
                     {"content", special},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
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
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", vocab},
                      {"merges", merges}};
  const Json all = {{"version", "1.0"},          {"truncation", nullptr}, {"padding", nullptr},
                    {"added_tokens", added},     {"normalizer", nullptr}, {"pre_tokenizer", level},
                    {"post_processor", nullptr}, {"decoder", level},      {"model", model}};
  return all.dump(1) + "\n";
}

}  // namespace weft
