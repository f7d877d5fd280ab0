// Replaces every match of a text or a regular expression by a text, which is taken literally.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weft/io/tokenizer/regex.h"

namespace weft {

class Replacement {
 public:
  // Throws bad_file, naming `where`, for an empty or an overlong text.
  static Replacement of_text(const std::string& where, std::string text, std::string content);
  static Replacement of_regex(const std::string& where, std::string_view pattern, std::string content);

  // Appends the result to `out`; `text` must be valid UTF-8. Returns true if nothing was removed from its front: the result starts with the
  // first character of `text` or with what replaces it (what replaces several stands for the last of them, as in `tokenizers`). Throws
  // unsupported if the result exceeds the limit on growth.
  bool apply(std::string_view text, Regex::Scratch& scratch, std::string& out) const;

  const std::optional<std::string>& literal() const { return literal_; }  // nullopt: a regular expression
  const std::string& content() const { return content_; }

 private:
  std::string where_, content_;
  std::optional<std::string> literal_;
  std::shared_ptr<const Regex> regex_;
};

}  // namespace weft
