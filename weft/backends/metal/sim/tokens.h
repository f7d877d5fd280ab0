// Preprocessed source as a list of tokens that can be inspected, removed and reassembled with every line in place.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::metal::sim {

struct Token {
  enum class Kind { space, directive, word, number, quoted, sign };  // a sign is one character
  Kind kind;
  std::string text;
  int line = 0;
  int file = 0;  // of Tokens::files
  bool removed = false;
  std::string before;  // put in front of it
};

class Tokens {
 public:
  explicit Tokens(std::string_view preprocessed);

  size_t size() const { return tokens_.size(); }
  Token& operator[](size_t i) { return tokens_[i]; }
  const Token& operator[](size_t i) const { return tokens_[i]; }

  static constexpr size_t kNone = size_t(-1);
  bool counts(size_t i) const;      // neither space, directive nor removed
  size_t next(size_t i) const;      // next token that counts; size() at the end
  size_t previous(size_t i) const;  // last token before i that counts, or kNone
  bool is(size_t i, std::string_view text) const { return i < size() && tokens_[i].text == text; }
  bool is_word(size_t i) const { return i < size() && tokens_[i].kind == Token::Kind::word; }
  size_t closing(size_t open) const;   // matching token of ( [ {
  size_t opening(size_t close) const;  // matching token of ) ] } and of > in a template argument list

  // Removes [begin, end), except line breaks and directives.
  void remove(size_t begin, size_t end);
  // The text of [begin, end) on one line.
  std::string text(size_t begin, size_t end) const;
  // The namespaces around i: "a::b::" or "".
  std::string qualifier(size_t i) const;
  bool at_namespace_scope(size_t i) const;
  std::string place(size_t i) const;  // file:line
  const std::string& file(size_t i) const { return files_[size_t(tokens_[i].file)]; }

  // The text of all tokens that were not removed.
  std::string str() const;

 private:
  std::vector<std::string> scopes(size_t i) const;  // a namespace's name, "namespace" if it has none, "" for other braces
  void directive(std::string_view line);

  std::vector<Token> tokens_;
  std::vector<std::string> files_{"kernel.metal"};
  int line_ = 1;
};

bool is_address_space(std::string_view word);

}  // namespace weft::metal::sim
