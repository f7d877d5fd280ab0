// Unicode regular expressions (PCRE2 with JIT) for the Oniguruma patterns of tokenizer.json. Where the two languages read one spelling
// differently, the pattern is translated or rejected, never guessed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

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

// The pattern in PCRE2's syntax. Public for its test.
std::string translated_pattern(const std::string& where, std::string_view pattern);

}  // namespace weft
