// Converts a tokenizer between the keys of a GGUF file and the JSON files of a Hugging Face folder.
//
// llama.cpp has byte-level BPE as the model "gpt2", with merges and the name of a pre-tokenizer, and SentencePiece's BPE as the model
// "llama", with a score per token: of all neighbouring pairs that form a token, the one with the highest score is merged first.
#pragma once

#include <map>
#include <string>

#include "weft/io/gguf.h"
#include "weft/io/gguf_writer.h"
#include "weft/io/tokenizer/tokenizer_config.h"

namespace weft {

class TokenizerFolder;

// The contents of the files in a Hugging Face folder.
struct GgufTokenizer {
  std::string json;                              // tokenizer.json
  std::string config_json;                       // tokenizer_config.json
  TokenizerConfig config;                        // the same, parsed, for Tokenizer::parse
  std::map<std::string, std::string> templates;  // chat templates by name; the unnamed one is "default"
  std::map<std::string, std::string> special;    // bos_token, eos_token, ...: variables of chat templates
};

bool has_gguf_tokenizer(const Gguf& file);
// Throws bad_file with the key and the token, or unsupported with the model or the pre-tokenizer.
GgufTokenizer read_gguf_tokenizer(const Gguf& file);

// `vocab_size`: rows of the embedding. Ids without a token are written as unused tokens (unused_name).
void put_tokenizer(const TokenizerFolder& tokenizer, int64_t vocab_size, GgufMetadata& metadata);
// Writes the keys of a model without a tokenizer.
void put_no_tokenizer(GgufMetadata& metadata);

namespace gguf {

inline constexpr const char *kModel = "tokenizer.ggml.model", *kPre = "tokenizer.ggml.pre", *kTokens = "tokenizer.ggml.tokens",
                            *kTypes = "tokenizer.ggml.token_type", *kScores = "tokenizer.ggml.scores", *kMerges = "tokenizer.ggml.merges",
                            *kUnknown = "tokenizer.ggml.unknown_token_id", *kAddBos = "tokenizer.ggml.add_bos_token",
                            *kAddEos = "tokenizer.ggml.add_eos_token", *kAddSpace = "tokenizer.ggml.add_space_prefix",
                            *kTemplate = "tokenizer.chat_template", *kTemplateNames = "tokenizer.chat_templates";
inline constexpr const char *kBytes = "gpt2", *kPieces = "llama", *kNone = "none";  // values of kModel
inline constexpr const char* kMark = "\xe2\x96\x81";                                // SentencePiece's character for a space

enum TokenType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// The text of the unused token that is written for an id without a token: "[PAD7]".
std::string unused_name(int64_t id);

}  // namespace gguf
}  // namespace weft
