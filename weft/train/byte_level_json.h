// The tokenizer.json of a vocabulary whose tokens are whole characters or single bytes: byte-level BPE whose merges build
// each character from its bytes.
#pragma once

#include <string>
#include <vector>

namespace weft {

// Token i has id i; each is a byte or a character in UTF-8. The parts of characters that merging passes through come after
// them all. `special`, where given, is one more token, right after the others, that no text spells by chance.
std::string byte_level_json(const std::vector<std::string>& tokens, const std::string& special = "");

}  // namespace weft
