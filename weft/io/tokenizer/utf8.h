// UTF-8 decoding, byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// The first character of `text` (not empty): 1 to 4 bytes, or, if it is invalid, the longest prefix (at least one byte) that could start a
// character.
struct Utf8Step {
  char32_t code = 0xfffd;
  uint8_t length = 1;
  bool valid = false;
  bool cut = false;  // the text ends inside a character
};
Utf8Step utf8_step(std::string_view text);

void append_utf8(std::string& text, char32_t code);
size_t first_invalid_utf8(std::string_view text);                // text.size() if all of it is valid
void check_utf8(std::string_view text, std::string_view where);  // throws bad_file naming `where` and the byte

bool is_white_space(char32_t code);  // Unicode's White_Space

// The character that ends at byte `end`, and the one that starts at byte `begin`, of valid UTF-8; empty at either end of the text.
std::string_view last_character(std::string_view text, size_t end);
std::string_view first_character(std::string_view text, size_t begin);

// Moves whole characters from the front of `bytes` to the end of `text`, with U+FFFD for each maximal invalid sequence. If more may follow,
// an incomplete character stays in `bytes`; else nothing does.
void drain_utf8(std::string& bytes, std::string& text, bool more_follows);

}  // namespace weft
