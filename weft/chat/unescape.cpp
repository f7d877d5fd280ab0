#include "weft/chat/unescape.h"

#include <cstdint>

#include "weft/chat/trouble.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft::chat {
namespace {

int digit(char c, int base) {
  const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
  return value < base ? value : -1;
}

void append_code(std::string& out, char32_t code) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    throw Trouble(ErrorCode::bad_file,
                  "a string escape names the code point " + std::to_string(uint32_t(code)) + ", which is no character");
  append_utf8(out, code);
}

// \xHH, \uHHHH and \UHHHHHHHH; `at` is the first digit.
size_t append_hexadecimal(std::string& out, std::string_view text, size_t at, size_t digits) {
  char32_t code = 0;
  for (size_t i = 0; i < digits; ++i) {
    const int value = at + i < text.size() ? digit(text[at + i], 16) : -1;
    if (value < 0) throw Trouble(ErrorCode::bad_file, "a string escape needs " + std::to_string(digits) + " hexadecimal digits");
    code = code * 16 + char32_t(value);
  }
  append_code(out, code);
  return at + digits;
}

size_t append_octal(std::string& out, std::string_view text, size_t at) {
  char32_t code = 0;
  for (int i = 0; i < 3 && at < text.size() && digit(text[at], 8) >= 0; ++i) code = code * 8 + char32_t(digit(text[at++], 8));
  append_code(out, code);
  return at;
}

// Jinja writes a character beyond ASCII as an escape before it reads the escapes: a backslash before it leaves that escape's text.
size_t append_escaped_character(std::string& out, std::string_view text, size_t at) {
  const Utf8Step step = utf8_step(text.substr(at));
  const uint32_t code = step.code;
  const int digits = code <= 0xff ? 2 : code <= 0xffff ? 4 : 8;
  out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += "0123456789abcdef"[code >> shift & 15];
  return at + step.length;
}

}  // namespace

std::string unescaped(std::string_view text) {
  static constexpr std::string_view kEscapes = "\\'\"abfnrtv", kCharacters = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      out += text[at++];
      continue;
    }
    const char next = text[at + 1];
    if (const size_t found = kEscapes.find(next); found != kEscapes.npos) {
      out += kCharacters[found];
      at += 2;
    } else if (next == '\n') {
      at += 2;
    } else if (next == 'x' || next == 'u' || next == 'U') {
      at = append_hexadecimal(out, text, at + 2, next == 'x' ? 2 : next == 'u' ? 4 : 8);
    } else if (next >= '0' && next <= '7') {
      at = append_octal(out, text, at + 1);
    } else if (next == 'N') {
      not_supported("the string escape \\N");
    } else if ((unsigned char)next >= 0x80) {
      at = append_escaped_character(out, text, at + 1);
    } else {
      out += '\\';
      out += next;
      at += 2;
    }
  }
  return out;
}

}  // namespace weft::chat
