// A shape as a declaration of operands writes it ("... C", "B T H D"; operands.h has the rules), read at compile time: a call
// compares numbers, not words.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "weft/base/shape.h"

namespace weft {

class ShapePattern {
 public:
  // An axis: a fixed extent, or one of these.
  static constexpr int64_t kRows = -1;  // "(...)"
  static constexpr int64_t letter(char name) { return -2 - (name - 'A'); }
  static constexpr bool is_letter(int64_t axis) { return axis <= letter('A'); }
  static constexpr int letter_index(int64_t axis) { return int(letter('A') - axis); }

  constexpr ShapePattern(const char* text) : text_(text) {
    std::string_view rest = text_;
    scalar_ = rest == "1";
    while (!rest.empty()) {
      const size_t end = rest.find(' ') == rest.npos ? rest.size() : rest.find(' ');
      add(rest.substr(0, end));
      rest.remove_prefix(end < rest.size() ? end + 1 : end);
    }
  }

  constexpr std::string_view text() const { return text_; }
  constexpr bool any() const { return text_.empty(); }  // ""
  constexpr bool scalar() const { return scalar_; }     // "1"
  constexpr bool leading() const { return leading_; }   // starts with "..."
  constexpr int rank() const { return rank_; }          // without the leading axes
  constexpr int64_t operator[](int axis) const { return axes_[size_t(axis)]; }

 private:
  constexpr void add(std::string_view word) {
    if (word == "...") {
      leading_ = true;
      return;
    }
    axes_[size_t(rank_++)] = word == "(...)" ? kRows : word[0] >= 'A' && word[0] <= 'Z' ? letter(word[0]) : number(word);
  }
  static constexpr int64_t number(std::string_view digits) {
    int64_t value = 0;
    for (char digit : digits) value = digit >= '0' && digit <= '9' ? 10 * value + (digit - '0') : throw "neither a letter nor a number";
    return value;
  }

  std::string_view text_;
  std::array<int64_t, kMaxRank> axes_{};
  int rank_ = 0;
  bool leading_ = false, scalar_ = false;
};

}  // namespace weft
