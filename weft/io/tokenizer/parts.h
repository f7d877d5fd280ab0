// The contents of a tokenizer.json, ready to use.
#pragma once

#include <string>
#include <vector>

#include "weft/io/json.h"
#include "weft/io/tokenizer/added_tokens.h"
#include "weft/io/tokenizer/bpe.h"
#include "weft/io/tokenizer/normalizer.h"
#include "weft/io/tokenizer/pre_tokenizer.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {

struct Token {
  std::string spelling;  // in the vocabulary; empty: no token has this id
  std::string bytes;     // bytes it decodes to
  bool special = false;
};

struct Tokenizer::Parts {
  std::vector<Token> tokens;    // by id
  StringMap<int32_t> ids;       // by spelling
  AddedTokens raw, normalized;  // matched before and after normalisation
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  std::vector<int32_t> before, after;  // ids the template adds around one text
  std::optional<int32_t> bos_id, eos_id, pad_id;
  bool allows_cuts = false;  // at the places that weft/io/tokenizer/cuts.h finds
};

// Reads tokenizer.json as a whole, and each of its members (null counts as absent).
Tokenizer::Parts read_tokenizer(const JsonNode& root);

// Resolves the special tokens by id, and applies add_bos_token and add_eos_token to the template.
void apply_config(const TokenizerConfig& config, const std::string& file, Tokenizer::Parts& parts);

void read_model(const JsonNode& model, Tokenizer::Parts& parts);
std::vector<AddedToken> read_added_tokens(const JsonNode& root, Tokenizer::Parts& parts);
Normalizer read_normalizer(const JsonNode& root);
PreTokenizer read_pre_tokenizer(const JsonNode& root);
void read_post_processor(const JsonNode& root, Tokenizer::Parts& parts);
void check_decoder(const JsonNode& root);

}  // namespace weft
