// UTF-8, byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// What begins `text` (not empty): a character of 1 to 4 bytes, or, where it is none, the longest part (at least one
// byte) that could have begun one.
struct Utf8Step {
  char32_t code = 0xfffd;
  uint8_t length = 1;
  bool valid = false;
  bool cut = false;  // the text ended where a continuation byte was due
};
Utf8Step utf8_step(std::string_view text);

void append_utf8(std::string& text, char32_t code);
size_t first_invalid_utf8(std::string_view text);                // text.size() where all of it is valid
void check_utf8(std::string_view text, std::string_view where);  // throws bad_file that names `where` and the byte

// Moves whole characters from the front of `bytes` to the end of `text`, U+FFFD for each longest part of what is no
// character. Where more may follow, an unfinished character stays in `bytes`; else nothing does.
void drain_utf8(std::string& bytes, std::string& text, bool more_follows);

}  // namespace weft
