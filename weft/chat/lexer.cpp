#include "weft/chat/lexer.h"

#include <algorithm>

#include "weft/chat/text.h"
#include "weft/chat/trouble.h"
#include "weft/chat/unescape.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft::chat {
namespace {

using Kind = Token::Kind;

// \r\n and \r become \n; one newline at the end is dropped.
std::string with_plain_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string text, const std::string& file) : text_(std::move(text)), file_(file) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      const size_t tag = next_tag();
      if (tag == text_.npos) {
        add(Kind::data, text_.substr(at_));
        skip_to(text_.size());
      } else {
        lex_tag(tag);
      }
    }
    add(Kind::end, "");
    return std::move(tokens_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorCode::bad_file, file_, "line ", line_, ": ", parts...);
  }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  // Moves on and counts lines. line_starts_: what was read last ends with a newline.
  void skip_to(size_t end) {
    line_ += int(std::count(text_.begin() + ptrdiff_t(at_), text_.begin() + ptrdiff_t(end), '\n'));
    line_starts_ = end > at_ && text_[end - 1] == '\n';
    at_ = end;
  }

  bool has(size_t at, std::string_view what) const { return text_.compare(at, what.size(), what) == 0; }

  size_t spaces_end(size_t at) const {
    while (at < text_.size()) {
      const Utf8Step step = utf8_step(std::string_view(text_).substr(at));
      if (!is_space(step.code)) break;
      at += step.length;
    }
    return at;
  }

  size_t next_tag() const {
    for (size_t at = text_.find('{', at_); at != text_.npos; at = text_.find('{', at + 1))
      if (at + 1 < text_.size() && (text_[at + 1] == '{' || text_[at + 1] == '%' || text_[at + 1] == '#')) return at;
    return text_.npos;
  }

  // The text before a tag at `end`. '-' strips all white space at its end; else white space alone on the line of a block is stripped,
  // unless '+' keeps it.
  void add_data(size_t end, char sign, bool block) {
    std::string_view data = std::string_view(text_).substr(at_, end - at_);
    if (sign == '-') {
      data = stripped(data, std::nullopt, false, true);
    } else if (sign != '+' && block) {
      const size_t line = data.rfind('\n') + 1;
      if ((line > 0 || line_starts_) && line < data.size() && stripped(data.substr(line), std::nullopt).empty())
        data = data.substr(0, line);
    }
    if (!data.empty()) add(Kind::data, std::string(data));
    skip_to(end);
  }

  void lex_tag(size_t tag) {
    const char kind = text_[tag + 1];
    const char sign = tag + 2 < text_.size() && (text_[tag + 2] == '-' || text_[tag + 2] == '+') ? text_[tag + 2] : ' ';
    add_data(tag, sign, kind != '{');
    const size_t inside = tag + (sign == ' ' ? 2 : 3);
    if (kind == '#') return lex_comment(inside);
    if (kind == '%' && lex_raw(inside)) return;
    add(kind == '{' ? Kind::print_begin : Kind::block_begin, text_.substr(tag, inside - tag));
    skip_to(inside);
    lex_code(kind == '{');
  }

  void lex_comment(size_t inside) {
    const size_t end = text_.find("#}", inside);
    if (end == text_.npos) refuse("a comment {# has no end #}");
    const char sign = end > inside ? text_[end - 1] : ' ';
    skip_to(after_end(end + 2, sign));
  }

  // The position after the end of a block or comment: '-' skips white space, '+' nothing, else one newline is skipped.
  size_t after_end(size_t at, char sign) const {
    if (sign == '-') return spaces_end(at);
    return sign != '+' && at < text_.size() && text_[at] == '\n' ? at + 1 : at;
  }

  // {% raw %} ... {% endraw %}. False: the block has another name.
  bool lex_raw(size_t inside) {
    size_t at = spaces_end(inside);
    if (!has(at, "raw")) return false;
    at = spaces_end(at + 3);
    if (has(at, "-%}"))
      at = spaces_end(at + 3);
    else if (has(at, "%}"))
      at += 2;
    else
      return false;
    skip_to(at);
    for (size_t tag = text_.find("{%", at_); tag != text_.npos; tag = text_.find("{%", tag + 2)) {
      const char sign = tag + 2 < text_.size() && (text_[tag + 2] == '-' || text_[tag + 2] == '+') ? text_[tag + 2] : ' ';
      size_t end = spaces_end(tag + (sign == ' ' ? 2 : 3));
      if (!has(end, "endraw")) continue;
      end = spaces_end(end + 6);
      const char last = end < text_.size() && (text_[end] == '-' || text_[end] == '+') ? text_[end++] : ' ';
      if (!has(end, "%}")) continue;
      add_data(tag, sign, true);
      skip_to(after_end(end + 2, last));
      return true;
    }
    refuse("{% raw %} has no {% endraw %}");
  }

  // The inside of {{ }} or {% %} up to its end.
  void lex_code(bool print) {
    const std::string_view end = print ? "}}" : "%}";
    std::string open;  // brackets: an end tag inside them is two symbols
    for (;;) {
      if (at_ >= text_.size()) refuse("the template ends inside ", print ? "{{ }}" : "{% %}");
      if (open.empty() && lex_end(end, print)) return;
      const size_t spaces = spaces_end(at_);
      if (spaces > at_)
        skip_to(spaces);
      else
        lex_token(open);
    }
  }

  bool lex_end(std::string_view end, bool print) {
    const char sign = text_[at_] == '-' || (!print && text_[at_] == '+') ? text_[at_] : ' ';
    const size_t at = sign == ' ' ? at_ : at_ + 1;
    if (!has(at, end)) return false;
    const Kind kind = print ? Kind::print_end : Kind::block_end;
    add(kind, std::string(end));
    skip_to(print ? (sign == '-' ? spaces_end(at + 2) : at + 2) : after_end(at + 2, sign));
    return true;
  }

  void lex_token(std::string& open) {
    const char c = text_[at_];
    if (is_digit_char(c)) return lex_number();
    if (c == '"' || c == '\'') return lex_string(c);
    if (const size_t end = name_end(); end > at_) {
      add(Kind::name, text_.substr(at_, end - at_));
      return skip_to(end);
    }
    lex_symbol(open);
  }

  size_t name_end() const {
    size_t at = at_;
    while (at < text_.size()) {
      const Utf8Step step = utf8_step(std::string_view(text_).substr(at));
      const bool letter =
          step.code < 0x80 ? std::isalnum(int(step.code)) || step.code == '_' : is_alphabetic(step.code) || is_numeric(step.code);
      if (!letter) break;
      at += step.length;
    }
    return at;
  }

  // Digits with single underscores between them.
  template <class Accept>
  size_t digits_end(size_t at, Accept accept) const {
    size_t end = at;
    while (at < text_.size()) {
      const size_t digit = text_[at] == '_' && end == at && at > at_ ? at + 1 : at;
      if (digit >= text_.size() || !accept(text_[digit])) break;
      end = at = digit + 1;
    }
    return end;
  }

  void lex_number() {
    const auto decimal = [](char c) { return is_digit_char(c); };
    const char prefix = at_ + 1 < text_.size() && text_[at_] == '0' ? char(text_[at_ + 1] | 0x20) : ' ';
    if (prefix == 'x' || prefix == 'o' || prefix == 'b') {
      const auto accept = [prefix](char c) {
        return prefix == 'x' ? std::isxdigit((unsigned char)c) != 0 : c >= '0' && c <= (prefix == 'o' ? '7' : '1');
      };
      if (const size_t end = digits_end(at_ + 2, accept); end > at_ + 2) return add_number(Kind::integer, end);
    }
    const size_t whole = digits_end(at_, decimal);
    size_t end = whole;
    const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';  // x.0.1: items, no fraction
    if (!after_dot && end + 1 < text_.size() && text_[end] == '.' && is_digit_char(text_[end + 1])) end = digits_end(end + 1, decimal);
    if (!after_dot && end < text_.size() && (text_[end] | 0x20) == 'e') {
      const size_t sign = end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-') ? end + 2 : end + 1;
      if (sign < text_.size() && is_digit_char(text_[sign])) end = digits_end(sign, decimal);
    }
    if (end > whole) return add_number(Kind::number, end);
    const auto zero = [](char c) { return c == '0'; };
    add_number(Kind::integer, text_[at_] == '0' ? digits_end(at_, zero) : whole);
  }

  void add_number(Kind kind, size_t end) {
    std::string digits = text_.substr(at_, end - at_);
    std::erase(digits, '_');
    add(kind, std::move(digits));
    skip_to(end);
  }

  void lex_string(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) refuse("a string has no closing ", quote);
    try {
      add(Kind::string, unescaped(std::string_view(text_).substr(at_ + 1, end - at_ - 1)));
    } catch (const Trouble& trouble) {
      fail(trouble.code, file_, "line ", line_, ": ", trouble.message);
    }
    skip_to(end + 1);
  }

  void lex_symbol(std::string& open) {
    static constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    size_t length = 0;
    for (const std::string_view symbol : kDouble)
      if (has(at_, symbol)) length = 2;
    if (length == 0 && kSingle.find(text_[at_]) != kSingle.npos) length = 1;
    if (length == 0) refuse("unexpected character '", text_.substr(at_, utf8_step(std::string_view(text_).substr(at_)).length), "'");
    std::string symbol = text_.substr(at_, length);
    if (symbol == "(" || symbol == "[" || symbol == "{") open += symbol == "(" ? ')' : symbol == "[" ? ']' : '}';
    if (symbol == ")" || symbol == "]" || symbol == "}") {
      if (open.empty() || open.back() != symbol[0]) refuse("unexpected '", symbol, "'");
      open.pop_back();
    }
    add(Kind::symbol, std::move(symbol));
    skip_to(at_ + length);
  }

  const std::string text_;
  const std::string& file_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string described(const Token& token) {
  switch (token.kind) {
    case Kind::data: return "text";
    case Kind::end: return "the end of the template";
    case Kind::string: return "a string";
    default: return join("'", token.text.substr(0, 60), "'");
  }
}

std::vector<Token> tokens_of(std::string_view source, const std::string& file, const TemplateLimits& limits) {
  if (source.size() > limits.template_bytes)
    fail(ErrorCode::bad_file, file, "has ", source.size(), " bytes of template, the limit is ", limits.template_bytes);
  check_utf8(source, file);
  return Lexer(with_plain_newlines(source), file).run();
}

}  // namespace weft::chat
