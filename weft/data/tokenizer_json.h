// The parts of a tokenizer.json of byte-level BPE that Weft writes. Not installed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft {

using OrderedJson = nlohmann::ordered_json;

// A special token.
OrderedJson added_token(size_t id, const std::string& content);

// The component ByteLevel, as pre-tokenizer or decoder.
OrderedJson byte_level_part(bool use_regex);

struct TokenizerParts {
  OrderedJson added;  // special tokens
  OrderedJson pre_tokenizer, post_processor, decoder;
  OrderedJson vocab, merges;
};
std::string tokenizer_json(const TokenizerParts& parts);

}  // namespace weft
