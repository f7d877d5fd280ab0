// The tokenizer.json of a vocabulary whose tokens are whole characters or single bytes: byte-level BPE whose merges build
// each character from its bytes.
#pragma once

#include <string>
#include <vector>

namespace weft {

// Token i has id i; each is a byte or a character in UTF-8. The partial characters that merges pass through come last.
// `special` are further tokens, directly after the others, that ordinary text never encodes to.
std::string byte_level_json(const std::vector<std::string>& tokens, const std::vector<std::string>& special = {});

// A tokenizer.json with further special tokens, whose ids follow its largest one; those that it has already stay as they are. They are also
// in the model's vocabulary, so that every library gives them these ids.
std::string with_special_tokens(const std::string& tokenizer_json, const std::string& file, int32_t next_id,
                                const std::vector<std::string>& special);

}  // namespace weft
