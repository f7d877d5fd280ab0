// tokenizer_config.json and special_tokens_map.json beside a tokenizer.json: which tokens begin, end and pad a text, and whether encoding
// adds them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

// A token with an id in tokenizer_config.json (added_tokens_decoder).
struct ConfiguredToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};

struct TokenizerConfig {
  std::string file;  // the tokenizer_config.json; empty: there is none
  std::vector<ConfiguredToken> added_tokens;
  std::optional<std::string> bos_token, eos_token, pad_token;  // as spelled in the vocabulary
  std::optional<bool> add_bos, add_eos;                        // not set: as in tokenizer.json's template
  bool chat_template = false;                                  // a template exists (weft/chat reads it)
};

// Reads the files in `folder`; tokenizer_config.json takes precedence, absent files are skipped. Throws bad_file with the file, the path in
// it and what was expected, or with both files and values if they name different tokens that begin or end a text.
TokenizerConfig read_tokenizer_config(const std::string& folder);

}  // namespace weft
