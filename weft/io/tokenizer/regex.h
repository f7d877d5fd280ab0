// Unicode regular expressions (PCRE2 with JIT) for the Oniguruma patterns of tokenizer.json. Where the two languages read one spelling
// differently, the pattern is translated or rejected, never guessed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weft/io/tokenizer/utf8.h"

namespace weft {

struct Match {
  size_t begin, end;
};

class Regex {
 public:
  // Throws unsupported, naming `where`, if the pattern cannot be translated; bad_file if it is invalid.
  static Regex from_pattern(const std::string& where, std::string_view pattern);
  static Regex from_literal(const std::string& where, std::string_view text);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Per-thread matching state; usable with any regex, one at a time.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;

   private:
    friend class Regex;
    struct State;
    std::unique_ptr<State> state_;
  };

  // The first match at or after `from` in `text`, which must be valid UTF-8.
  std::optional<Match> find(std::string_view text, size_t from, Scratch& scratch) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

// Calls `found` with every match in `text`, from left to right. As in `tokenizers`, an empty text has no match, and an empty match right
// after another match does not count.
template <class Found>
void for_each_match(const Regex& regex, std::string_view text, Regex::Scratch& scratch, const Found& found) {
  size_t done = 0, from = 0;
  bool after_match = false;
  while (from <= text.size() && !text.empty()) {
    const auto match = regex.find(text, from, scratch);
    if (!match) return;
    if (match->begin == match->end && after_match && match->end == done) {
      if (from >= text.size()) return;
      from += utf8_step(text.substr(from)).length;
      continue;
    }
    found(*match);
    done = from = match->end;
    after_match = true;
  }
}

// The pattern in PCRE2's syntax. Public for its test.
std::string translated_pattern(const std::string& where, std::string_view pattern);

}  // namespace weft
