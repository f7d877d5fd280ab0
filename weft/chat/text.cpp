#include "weft/chat/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "weft/chat/special_case.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft::chat {
namespace {

utf8proc_category_t category(char32_t code) { return utf8proc_category(utf8proc_int32_t(code)); }

template <size_t count>
bool within(const CodeRange (&ranges)[count], char32_t code) {
  if (code < 0x80) return false;
  const auto found = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                      [](char32_t wanted, const CodeRange& range) { return wanted < range.first; });
  return found != std::begin(ranges) && code <= (found - 1)->last;
}

const SpecialCase* special(char32_t code) {
  const auto found = std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), code,
                                      [](const SpecialCase& entry, char32_t wanted) { return entry.code < wanted; });
  return found != std::end(kSpecialCases) && found->code == code ? found : nullptr;
}

void append_upper(std::u32string& out, char32_t code) {
  if (const SpecialCase* entry = special(code))
    out += entry->upper;
  else
    out += char32_t(utf8proc_toupper(utf8proc_int32_t(code)));
}

void append_title(std::u32string& out, char32_t code) {
  if (const SpecialCase* entry = special(code); entry && entry->title)
    out += entry->title;
  else
    out += char32_t(utf8proc_totitle(utf8proc_int32_t(code)));
}

// Characters that do not interrupt a word for the rule of the final sigma.
bool is_case_ignorable(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return code == '\'' || code == '.' || code == ':' || code == 0xb7 || code == 0x2018 || code == 0x2019;
  }
}

// Sigma at the end of a word: a cased letter before it, none after it.
bool is_final_sigma(std::u32string_view text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

void append_lower(std::u32string& out, std::u32string_view text, size_t at) {
  const char32_t code = text[at];
  if (code == 0x130) {
    out += U"i\u0307";
  } else if (code == 0x3a3) {
    out += is_final_sigma(text, at) ? U'\u03c2' : U'\u03c3';
  } else {
    out += char32_t(utf8proc_tolower(utf8proc_int32_t(code)));
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (unsigned char)c < 0x80; });
}

}  // namespace

size_t code_points(std::string_view text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

size_t byte_offset(std::string_view text, size_t code_point) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && code_point-- == 0) break;
  return at;
}

std::u32string decoded(std::string_view text) {
  std::u32string codes;
  codes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    codes += step.code;
    at += step.length;
  }
  return codes;
}

std::string encoded(std::u32string_view codes) {
  std::string text;
  text.reserve(codes.size());
  for (const char32_t code : codes) append_utf8(text, code);
  return text;
}

bool is_space(char32_t code) {
  if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20);
  return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_printable(char32_t code) {
  if (code == ' ') return true;
  const auto found = category(code);
  return found != UTF8PROC_CATEGORY_CN && found < UTF8PROC_CATEGORY_ZS;
}

bool is_alphabetic(char32_t code) {
  const auto found = category(code);
  return found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t code) { return is_decimal(code) || within(kOtherDigits, code); }
bool is_numeric(char32_t code) {
  const auto found = category(code);
  return found == UTF8PROC_CATEGORY_ND || found == UTF8PROC_CATEGORY_NL || found == UTF8PROC_CATEGORY_NO || within(kOtherNumbers, code);
}
bool is_lower(char32_t code) { return category(code) == UTF8PROC_CATEGORY_LL || within(kOtherLower, code); }
bool is_upper(char32_t code) { return category(code) == UTF8PROC_CATEGORY_LU || within(kOtherUpper, code); }
bool is_cased(char32_t code) { return is_lower(code) || is_upper(code) || category(code) == UTF8PROC_CATEGORY_LT; }

std::string_view stripped(std::string_view text, const std::optional<std::string_view>& chars, bool left, bool right) {
  const std::u32string set = chars ? decoded(*chars) : std::u32string();
  const auto dropped = [&](char32_t code) { return chars ? set.find(code) != set.npos : is_space(code); };
  while (left && !text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (!dropped(step.code)) break;
    text.remove_prefix(step.length);
  }
  while (right && !text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
    if (!dropped(utf8_step(text.substr(at)).code)) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

std::string upper(std::string_view text) {
  std::u32string out;
  if (!is_ascii(text)) {
    for (const char32_t code : decoded(text)) append_upper(out, code);
    return encoded(out);
  }
  std::string plain(text);
  for (char& c : plain)
    if (c >= 'a' && c <= 'z') c = char(c - 32);
  return plain;
}

std::string lower(std::string_view text) {
  if (!is_ascii(text)) {
    const std::u32string codes = decoded(text);
    std::u32string out;
    for (size_t i = 0; i < codes.size(); ++i) append_lower(out, codes, i);
    return encoded(out);
  }
  std::string plain(text);
  for (char& c : plain)
    if (c >= 'A' && c <= 'Z') c = char(c + 32);
  return plain;
}

std::string capitalized(std::string_view text) {
  const std::u32string codes = decoded(text);
  std::u32string out;
  for (size_t i = 0; i < codes.size(); ++i)
    if (i == 0)
      append_title(out, codes[0]);
    else
      append_lower(out, codes, i);
  return encoded(out);
}

std::string titled(std::string_view text) {
  const std::u32string codes = decoded(text);
  std::u32string out;
  bool inside = false;
  for (size_t i = 0; i < codes.size(); ++i) {
    if (inside)
      append_lower(out, codes, i);
    else
      append_title(out, codes[i]);
    inside = is_cased(codes[i]);
  }
  return encoded(out);
}

std::string swapped(std::string_view text) {
  const std::u32string codes = decoded(text);
  std::u32string out;
  for (size_t i = 0; i < codes.size(); ++i)
    if (is_upper(codes[i]))
      append_lower(out, codes, i);
    else if (is_lower(codes[i]))
      append_upper(out, codes[i]);
    else
      out += codes[i];
  return encoded(out);
}

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  return out;
}

}  // namespace weft::chat
