#include "weft/data/tokenizer_training/trained_json.h"

#include "weft/data/tokenizer_json.h"
#include "weft/io/tokenizer/patterns.h"

namespace weft {
namespace {

using Json = OrderedJson;

Json pre_tokenizer(WordPattern pattern) {
  if (pattern == WordPattern::gpt2) return byte_level_part(true);  // ByteLevel has the pattern built in
  const Json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern_text(pattern)}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level_part(false)}}};
}

Json vocab_of(const std::vector<std::string>& tokens) {
  Json::object_t vocab;
  vocab.reserve(tokens.size());
  // Without a search for each key: all are different.
  for (size_t id = 0; id < tokens.size(); ++id) vocab.Container::emplace_back(tokens[id], id);
  return vocab;
}

Json merges_of(const LearnedMerges& learned) {
  Json merges = Json::array();
  for (const TokenPair pair : learned.merges) merges.push_back({learned.tokens[left_of(pair)], learned.tokens[right_of(pair)]});
  return merges;
}

}  // namespace

const char* pattern_text(WordPattern pattern) { return pattern == WordPattern::gpt2 ? kGpt2Pattern : kLlama3Pattern; }

std::vector<std::string> special_tokens(const TokenizerTraining& options) {
  std::vector<std::string> all = options.special;
  if (!options.end_token.empty()) all.insert(all.begin(), options.end_token);
  return all;
}

std::string trained_tokenizer_json(const LearnedMerges& learned, const TokenizerTraining& options) {
  Json added = Json::array();
  for (const std::string& token : special_tokens(options)) added.push_back(added_token(added.size(), token));
  Json post_processor = byte_level_part(true);
  post_processor["trim_offsets"] = false;
  return tokenizer_json({.added = added,
                         .pre_tokenizer = pre_tokenizer(options.pattern),
                         .post_processor = post_processor,
                         .decoder = byte_level_part(true),
                         .vocab = vocab_of(learned.tokens),
                         .merges = merges_of(learned)});
}

std::string trained_config_json(const TokenizerTraining& options) {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (!options.end_token.empty()) config["eos_token"] = options.end_token;
  return config.dump(2) + "\n";
}

}  // namespace weft
