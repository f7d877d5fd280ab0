#include "weft/io/tokenizer/utf8.h"

#include <cstring>

#include "weft/base/check.h"

namespace weft {

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](size_t i) { return uint8_t(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1, true, false};
  const int length = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
  Utf8Step step;
  if (length == 0) return step;
  char32_t code = first & (0x7f >> length);
  for (int i = 1; i < length; ++i) {
    step.length = uint8_t(i);
    if (size_t(i) == text.size()) {
      step.cut = true;
      return step;
    }
    // Overlong forms, surrogates and code points past U+10FFFF are all excluded by the second byte.
    const uint8_t least = i == 1 && first == 0xe0 ? 0xa0 : i == 1 && first == 0xf0 ? 0x90 : 0x80;
    const uint8_t most = i == 1 && first == 0xed ? 0x9f : i == 1 && first == 0xf4 ? 0x8f : 0xbf;
    if (byte(size_t(i)) < least || byte(size_t(i)) > most) return step;
    code = code << 6 | (byte(size_t(i)) & 0x3f);
  }
  return {code, uint8_t(length), true, false};
}

void append_utf8(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += char(code);
  } else if (code < 0x800) {
    text += {char(0xc0 | code >> 6), char(0x80 | (code & 0x3f))};
  } else if (code < 0x10000) {
    text += {char(0xe0 | code >> 12), char(0x80 | (code >> 6 & 0x3f)), char(0x80 | (code & 0x3f))};
  } else {
    text += {char(0xf0 | code >> 18), char(0x80 | (code >> 12 & 0x3f)), char(0x80 | (code >> 6 & 0x3f)), char(0x80 | (code & 0x3f))};
  }
}

size_t first_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;  // fast path: most text is ASCII
    if (text.size() - at >= 8 && (std::memcpy(&eight, text.data() + at, 8), (eight & 0x8080808080808080u) == 0)) {
      at += 8;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (!step.valid) return at;
    at += step.length;
  }
  return at;
}

void check_utf8(std::string_view text, std::string_view where) {
  const size_t wrong = first_invalid_utf8(text);
  if (wrong != text.size()) fail(ErrorCode::bad_file, where, "is not UTF-8 at byte ", wrong);
}

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::string_view last_character(std::string_view text, size_t end) {
  size_t begin = end;
  while (begin > 0 && (begin == end || (text[begin] & 0xc0) == 0x80)) --begin;
  return text.substr(begin, end - begin);
}

std::string_view first_character(std::string_view text, size_t begin) {
  return begin >= text.size() ? std::string_view() : text.substr(begin, utf8_step(text.substr(begin)).length);
}

void drain_utf8(std::string& bytes, std::string& text, bool more_follows) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(std::string_view(bytes).substr(at));
    if (step.cut && more_follows) break;
    if (step.valid)
      text.append(bytes, at, step.length);
    else
      append_utf8(text, 0xfffd);
    at += step.length;
  }
  bytes.erase(0, at);
}

}  // namespace weft
