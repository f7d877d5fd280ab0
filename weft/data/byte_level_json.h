// The tokenizer.json of a vocabulary whose tokens are whole characters or single bytes: byte-level BPE whose merges build
// each character from its bytes.
#pragma once

#include <string>
#include <vector>

namespace weft {

// Token i has id i; each is a byte or a character in UTF-8. The partial characters that merges pass through come last.
// `special`, if given, is one more token, directly after the others, that ordinary text never encodes to.
std::string byte_level_json(const std::vector<std::string>& tokens, const std::string& special = "");

}  // namespace weft
