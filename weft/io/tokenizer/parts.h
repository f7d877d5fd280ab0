// The contents of a tokenizer.json, ready to use.
#pragma once

#include <string>
#include <vector>

#include "weft/io/json.h"
#include "weft/io/tokenizer/added_tokens.h"
#include "weft/io/tokenizer/bpe.h"
#include "weft/io/tokenizer/cuts.h"
#include "weft/io/tokenizer/decoder.h"
#include "weft/io/tokenizer/normalizer.h"
#include "weft/io/tokenizer/pre_tokenizer.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft {

struct Token {
  std::string spelling;  // in the vocabulary; empty: no token has this id
  std::string prepared;  // as the decoder takes it (Decoder::prepared)
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
  Cuts cuts;
  Decoder decoder;
  std::vector<int32_t> before, after;  // ids the template adds around one text
  std::optional<int32_t> bos_id, eos_id, pad_id;
  std::vector<std::string> ignored;  // members of the file that do nothing here
};

// Reads tokenizer.json as a whole, and each of its members (null counts as absent).
Tokenizer::Parts read_tokenizer(const JsonNode& root);

// Resolves the special tokens by id, adds the added tokens that only tokenizer_config.json has, and applies add_bos_token and
// add_eos_token to the template. Throws bad_file, naming both files, if they contradict each other.
void apply_config(const TokenizerConfig& config, const std::string& file, Tokenizer::Parts& parts);

// Computes how every token is decoded.
void prepare_tokens(Tokenizer::Parts& parts);

void read_model(const JsonNode& model, Tokenizer::Parts& parts);
std::vector<AddedToken> read_added_tokens(const JsonNode& root, Tokenizer::Parts& parts);
Normalizer read_normalizer(const JsonNode& root);
PreTokenizer read_pre_tokenizer(const JsonNode& root);
void read_post_processor(const JsonNode& root, Tokenizer::Parts& parts);
Decoder read_decoder(const JsonNode& root);

// The place of a node, for messages.
inline std::string where(const JsonNode& node) { return node.file() + ": " + node.path(); }
// The steps of a member: one step, or a Sequence of them.
std::vector<JsonNode> steps_of(const JsonNode& node, const std::string& list);
// A pattern with its replacement, of the normalizer or of the decoder.
Replacement read_replacement(const JsonNode& step);
// The text of one character that replaces spaces.
std::string read_mark(const JsonNode& node);
Metaspace::Prepend read_prepend_scheme(const JsonNode& step);

void add_token(const AddedToken& token, Tokenizer::Parts& parts);
void put_token(const JsonNode& node, Tokenizer::Parts& parts, const std::string& spelling, int64_t id);

}  // namespace weft
