// tokenizer_config.json and special_tokens_map.json beside a tokenizer.json: which tokens begin, end and pad a text, and whether encoding
// adds them.
#pragma once

#include <optional>
#include <string>

namespace weft {

struct TokenizerConfig {
  std::optional<std::string> bos_token, eos_token, pad_token;  // as spelled in the vocabulary
  std::optional<bool> add_bos, add_eos;                        // not set: as in tokenizer.json's template
  bool chat_template = false;                                  // a template exists; it is not applied
};

// Reads the files in `folder`; tokenizer_config.json takes precedence, absent files are skipped. Throws bad_file with the file, the path in
// it and what was expected.
TokenizerConfig read_tokenizer_config(const std::string& folder);

}  // namespace weft
