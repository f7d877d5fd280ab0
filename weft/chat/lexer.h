// The tokens of a template. White space around tags is removed here, as Jinja does with trim_blocks and lstrip_blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/chat/limits.h"

namespace weft::chat {

struct Token {
  enum class Kind : uint8_t { data, print_begin, print_end, block_begin, block_end, name, string, integer, number, symbol, end };
  Kind kind;
  int line;
  std::string text;  // the name, the unescaped string, the symbol, the digits
};

std::string described(const Token& token);  // for a message

// Throws bad_file with `file`, the line and what was expected.
std::vector<Token> tokens_of(std::string_view source, const std::string& file, const TemplateLimits& limits);

}  // namespace weft::chat
