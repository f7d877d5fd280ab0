// Normalises a text before it is split: a sequence of steps.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weft/io/tokenizer/normal_forms.h"
#include "weft/io/tokenizer/replacement.h"

namespace weft {

// Puts a text in front of every part between added tokens that is not empty.
struct Prepend {
  std::string text;
};
// Removes white space at the ends.
struct StripSpaces {
  bool left = true, right = true;
};
using NormalizerStep = std::variant<NormalForm, Prepend, Replacement, StripSpaces>;

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  // True if apply() is known to return the same text, without a full test.
  bool keeps(std::string_view text) const;

  // `text` must be valid UTF-8. `continues`: a text continues another one that was cut; nothing is prepended to it. `front_kept`: false if
  // characters were removed from the front of the text.
  struct Result {
    std::string text;
    bool front_kept = true;
  };
  Result apply(std::string_view text, Regex::Scratch& scratch, bool continues = false) const;
  std::string apply(std::string_view text) const;

  const std::vector<NormalizerStep>& steps() const { return steps_; }

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace weft
