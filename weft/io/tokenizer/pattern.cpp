// Translates Oniguruma patterns to PCRE2.
#include <algorithm>
#include <cctype>

#include "weft/base/check.h"
#include "weft/io/tokenizer/regex.h"

namespace weft {
namespace {

// Reads a pattern from left to right and copies it, except:
//   \s \S       Unicode's White_Space (PCRE2's own adds U+180E)
//   \d \D \p{..} \P{..} \r \n \t \f \e \x.. and escaped punctuation mean the same in both and are kept
//   \uHHHH      \x{HHHH}
// Rejected: other letters after a backslash (\w \b \h ...), nested sets and set intersections, {m,n}+ (possessive in PCRE2, a repeated
// repeat in Oniguruma), (?i) except as (?i:...) or at the very beginning.
class Translator {
 public:
  Translator(const std::string& where, std::string_view pattern) : where_(where), pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) step();
    return std::move(out_);
  }

 private:
  bool ahead(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  void copy(size_t bytes = 1) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::unsupported, where_, "has a pattern with ", what, " at byte ", at_, ", which is not supported");
  }

  void step() {
    const char c = pattern_[at_];
    if (c == '\\') return escape();
    if (in_set_) return set_member(c);
    if (c == '[') return open_set();
    if (c == '(') return group();
    if (c == '}' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] == '+') refuse("'}+'");
    copy();
  }

  void escape() {
    if (at_ + 1 == pattern_.size()) refuse("a lone backslash");
    const char c = pattern_[at_ + 1];
    if (c == 's' || c == 'S') {
      out_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      at_ += 2;
    } else if (c == 'u') {
      if (at_ + 6 > pattern_.size()) refuse("a truncated \\u");
      for (size_t i = at_ + 2; i < at_ + 6; ++i)
        if (!std::isxdigit((unsigned char)pattern_[i])) refuse("a \\u without four digits");
      out_ += "\\x{" + std::string(pattern_.substr(at_ + 2, 4)) + "}";
      at_ += 6;
    } else if (std::string_view("dDpPrntfex").find(c) != std::string_view::npos || std::ispunct((unsigned char)c)) {
      copy(2);
      if ((c == 'p' || c == 'P' || c == 'x') && ahead("{"))  // its braces are not a quantifier
        copy(std::min(pattern_.find('}', at_), pattern_.size() - 1) - at_ + 1);
    } else {
      refuse(std::string("'\\") + (std::isprint((unsigned char)c) ? c : '?') + "'");
    }
  }

  void open_set() {
    in_set_ = true;
    copy();
    if (ahead("^")) copy();
    if (ahead("]")) refuse("']' at the beginning of a set");
  }

  void set_member(char c) {
    if (c == '[') refuse("a set within a set");
    if (ahead("&&")) refuse("an intersection of sets");
    if (c == ']') in_set_ = false;
    copy();
  }

  void group() {
    if (!ahead("(?")) {
      if (ahead("(*")) refuse("'(*'");
      return copy();
    }
    for (std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"})
      if (ahead(known)) return copy(known.size());
    if (ahead("(?i)") && at_ == 0) return copy(4);
    refuse("a group of this kind");
  }

  const std::string& where_;
  std::string_view pattern_;
  size_t at_ = 0;
  bool in_set_ = false;
  std::string out_;
};

}  // namespace

std::string translated_pattern(const std::string& where, std::string_view pattern) { return Translator(where, pattern).run(); }

}  // namespace weft
