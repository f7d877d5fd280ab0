#include "weft/backends/metal/sim/tokens.h"

#include <cctype>
#include <cstdlib>

#include "weft/base/check.h"

namespace weft::metal::sim {
namespace {

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80); }
bool in_word(char c) { return starts_word(c) || std::isdigit(static_cast<unsigned char>(c)); }
bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

size_t end_of_number(std::string_view s, size_t i) {
  const bool hexadecimal = s[i] == '0' && i + 1 < s.size() && (s[i + 1] == 'x' || s[i + 1] == 'X');
  const auto exponent = [&](char c) { return hexadecimal ? c == 'p' || c == 'P' : c == 'e' || c == 'E'; };
  for (++i; i < s.size(); ++i) {
    const bool sign_of_exponent = (s[i] == '+' || s[i] == '-') && exponent(s[i - 1]);
    if (!in_word(s[i]) && s[i] != '.' && s[i] != '\'' && !sign_of_exponent) break;
  }
  return i;
}

size_t end_of_quoted(std::string_view s, size_t i) {
  const char quote = s[i];
  for (++i; i < s.size() && s[i] != quote; ++i) {
    if (s[i] == '\\') ++i;
  }
  return std::min(i + 1, s.size());
}

}  // namespace

bool is_address_space(std::string_view word) { return word == "device" || word == "constant" || word == "threadgroup" || word == "thread"; }

// Turns a line marker of the preprocessor, `# 12 "file" flags`, into a #line; keeps anything else (#pragma).
void Tokens::directive(std::string_view line) {
  Token token{Token::Kind::directive, std::string(line), line_, int(files_.size()) - 1, false, ""};
  if (line.size() > 2 && line[1] == ' ' && digit(line[2])) {
    const int number = std::atoi(line.data() + 2);
    const size_t open = line.find('"'), close = line.rfind('"');
    if (open != std::string_view::npos && close > open) {
      files_.emplace_back(line.substr(open + 1, close - open - 1));
      token.text = "#line " + std::to_string(number) + " \"" + files_.back() + "\"";
      line_ = number - 1;  // the following line break adds one
    }
  }
  tokens_.push_back(std::move(token));
}

Tokens::Tokens(std::string_view s) {
  bool line_begins = true;
  for (size_t i = 0; i < s.size();) {
    const char c = s[i];
    size_t end = i + 1;
    Token::Kind kind = Token::Kind::sign;
    if (line_begins && c == '#') {
      end = std::min(s.find('\n', i), s.size());
      directive(s.substr(i, end - i));
      i = end;
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(c))) {
      kind = Token::Kind::space;
    } else if (starts_word(c)) {
      kind = Token::Kind::word;
      while (end < s.size() && in_word(s[end])) ++end;
    } else if (digit(c) || (c == '.' && i + 1 < s.size() && digit(s[i + 1]))) {
      kind = Token::Kind::number;
      end = end_of_number(s, i);
    } else if (c == '"' || c == '\'') {
      kind = Token::Kind::quoted;
      end = end_of_quoted(s, i);
    }
    tokens_.push_back({kind, std::string(s.substr(i, end - i)), line_, int(files_.size()) - 1, false, ""});
    line_begins = c == '\n' || (line_begins && kind == Token::Kind::space);
    if (c == '\n') ++line_;
    i = end;
  }
}

bool Tokens::counts(size_t i) const {
  const Token& t = tokens_[i];
  return !t.removed && t.kind != Token::Kind::space && t.kind != Token::Kind::directive;
}

size_t Tokens::next(size_t i) const {
  for (++i; i < size() && !counts(i);) ++i;
  return i;
}

size_t Tokens::previous(size_t i) const {
  while (i-- > 0) {
    if (counts(i)) return i;
  }
  return kNone;
}

size_t Tokens::closing(size_t open) const {
  const std::string& from = tokens_[open].text;
  const std::string_view to = from == "(" ? ")" : from == "[" ? "]" : "}";
  int depth = 0;
  for (size_t i = open; i < size(); ++i) {
    if (!counts(i) || tokens_[i].kind != Token::Kind::sign) continue;
    if (tokens_[i].text == from) ++depth;
    if (tokens_[i].text == to && --depth == 0) return i;
  }
  fail(ErrorCode::unsupported, place(open), "'", from, "' is never closed");
}

size_t Tokens::opening(size_t close) const {
  const std::string& to = tokens_[close].text;
  const std::string_view from = to == ")" ? "(" : to == "]" ? "[" : to == "}" ? "{" : "<";
  int depth = 0;
  for (size_t i = close; i != kNone; i = previous(i)) {
    if (tokens_[i].kind != Token::Kind::sign) continue;
    if (tokens_[i].text == to) ++depth;
    if (tokens_[i].text == from && --depth == 0) return i;
  }
  fail(ErrorCode::unsupported, place(close), "'", to, "' was never opened");
}

void Tokens::remove(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (tokens_[i].kind == Token::Kind::directive || tokens_[i].text == "\n") continue;
    tokens_[i].removed = true;
    tokens_[i].before.clear();
  }
}

std::string Tokens::text(size_t begin, size_t end) const {
  std::string result;
  for (size_t i = begin; i < end; ++i) {
    if (tokens_[i].removed || tokens_[i].kind == Token::Kind::directive) continue;
    result += tokens_[i].text == "\n" ? " " : tokens_[i].text;
  }
  return result;
}

std::vector<std::string> Tokens::scopes(size_t end) const {
  std::vector<std::string> around;
  for (size_t i = 0; i < end; ++i) {
    if (!counts(i)) continue;
    if (tokens_[i].text == "{") {
      std::string name;
      size_t k = previous(i);
      for (; k != kNone && !is(k, "namespace") && (is_word(k) || is(k, ":")); k = previous(k)) name = tokens_[k].text + name;
      const bool is_namespace = k != kNone && is(k, "namespace");
      around.push_back(!is_namespace ? "" : name.empty() ? "namespace" : name);
    } else if (tokens_[i].text == "}" && !around.empty()) {
      around.pop_back();
    }
  }
  return around;
}

std::string Tokens::qualifier(size_t i) const {
  std::string result;
  for (const std::string& name : scopes(i)) {
    if (!name.empty() && name != "namespace") result += name + "::";
  }
  return result;
}

bool Tokens::at_namespace_scope(size_t i) const {
  for (const std::string& name : scopes(i)) {
    if (name.empty()) return false;
  }
  return true;
}

std::string Tokens::place(size_t i) const {
  if (i >= size()) return files_.back();
  return join(file(i), ":", tokens_[i].line);
}

std::string Tokens::str() const {
  std::string result;
  for (const Token& t : tokens_) {
    result += t.before;
    if (t.removed) continue;
    if (t.kind == Token::Kind::word && is_address_space(t.text)) result += "weft_sim_";
    result += t.text;
  }
  return result;
}

}  // namespace weft::metal::sim
