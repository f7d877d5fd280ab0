// tokenizer_config.json and special_tokens_map.json beside a tokenizer.json: which tokens begin, end and pad a text, and
// whether encoding adds them.
#pragma once

#include <optional>
#include <string>

namespace weft {

struct TokenizerConfig {
  std::optional<std::string> bos_token, eos_token, pad_token;  // as the vocabulary spells them
  std::optional<bool> add_bos, add_eos;                        // not given: what tokenizer.json's template does
  bool chat_template = false;                                  // there is one; it is not interpreted
};

// What the files in `folder` say, tokenizer_config.json first; files that are absent say nothing. Throws bad_file with the
// file, the place in it and what was expected.
TokenizerConfig read_tokenizer_config(const std::string& folder);

}  // namespace weft
