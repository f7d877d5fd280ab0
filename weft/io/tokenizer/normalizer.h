// Normalises text before it is split: Unicode normalisation forms, in sequence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalForm> forms) : forms_(std::move(forms)) {}

  // True if apply() is known to return the same text, without a full test.
  bool keeps(std::string_view text) const;
  bool allows_cuts() const;                        // of the text before it is normalised (weft/io/tokenizer/cuts.h)
  std::string apply(std::string_view text) const;  // text must be valid UTF-8

 private:
  std::vector<NormalForm> forms_;
};

}  // namespace weft
