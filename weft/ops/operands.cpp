#include "weft/ops/operands.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "weft/device/device.h"

namespace weft {
namespace {

constexpr std::string_view kLeading = "...", kRows = "(...)";

// The extents that operands have set so far.
class Extents {
 public:
  Extents() { std::fill(std::begin(letters_), std::end(letters_), kUnknown); }

  // True when `shape` has the form of `pattern`; the letters of the pattern are then known.
  bool match(std::string_view pattern, const Shape& shape) {
    int axis = 0;
    if (pattern.starts_with(kLeading)) {
      const int leading = shape.rank() - int(std::count(pattern.begin(), pattern.end(), ' '));
      if (leading < 0 || !match_leading(shape, leading)) return false;
      axis = leading;
      next(pattern);
    }
    for (; !pattern.empty(); ++axis)
      if (axis >= shape.rank() || !match_extent(next(pattern), shape[axis])) return false;
    return axis == shape.rank();
  }

  // The pattern with the numbers that are known: "2x3xC".
  std::string expected(std::string_view pattern) const {
    std::string text;
    const auto add = [&](const auto& part) { text += join(text.empty() ? "" : "x", part); };
    while (!pattern.empty()) {
      const std::string_view word = next(pattern);
      if (word == kLeading && leading_known_) {
        for (int64_t extent : leading_) add(extent);
      } else if (const int64_t extent = known(word); extent != kUnknown) {
        add(extent);
      } else {
        add(word);
      }
    }
    return text.empty() ? "scalar" : text;
  }

 private:
  static constexpr int64_t kUnknown = -1;

  static std::string_view next(std::string_view& pattern) {
    const size_t end = std::min(pattern.find(' '), pattern.size());
    const std::string_view word = pattern.substr(0, end);
    pattern.remove_prefix(std::min(end + 1, pattern.size()));
    return word;
  }
  static bool is_letter(std::string_view word) { return word.size() == 1 && word[0] >= 'A' && word[0] <= 'Z'; }

  int64_t known(std::string_view word) const {
    if (is_letter(word)) return letters_[word[0] - 'A'];
    if (word == kRows) return leading_known_ ? leading_.numel() : kUnknown;
    int64_t number = kUnknown;
    std::from_chars(word.data(), word.data() + word.size(), number);
    return number;
  }
  bool match_extent(std::string_view word, int64_t extent) {
    if (is_letter(word) && letters_[word[0] - 'A'] == kUnknown) letters_[word[0] - 'A'] = extent;
    return known(word) == extent;
  }
  bool match_leading(const Shape& shape, int count) {
    const Shape leading(std::span(shape.begin(), size_t(count)));
    if (leading_known_) return leading == leading_;
    leading_ = leading;
    leading_known_ = true;
    return true;
  }

  int64_t letters_['Z' - 'A' + 1];
  Shape leading_;
  bool leading_known_ = false;
};

const GivenOperand& find(std::span<const GivenOperand> operands, const char* name) {
  return *std::find_if(operands.begin(), operands.end(), [&](const GivenOperand& o) { return std::strcmp(o.rule->name, name) == 0; });
}

std::string listed(DTypes dtypes) {
  std::string text;
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::u32, DType::u8})
    if (dtypes.has(dtype)) text += join(text.empty() ? "" : " or ", dtype);
  return text;
}

class Checker {
 public:
  Checker(const Contract& contract, std::span<const GivenOperand> operands, ListElement element)
      : contract_(contract), operands_(operands), element_(element) {}

  void check_all() {
    for (const GivenOperand& operand : operands_) {
      check_presence(operand);
      if (!*operand.view) continue;
      check_dtype(*operand.rule, *operand.view);
      check_shape(*operand.rule, *operand.view);
      check_layout(*operand.rule, *operand.view);
    }
  }

 private:
  // Messages are made only when there is something to report.
  template <class... Parts>
  [[noreturn]] void refuse(const OperandRule& rule, const Parts&... parts) const {
    const std::string prefix = element_.list ? join(element_.list, "[", element_.index, "].") : "";
    fail(ErrorCode::invalid_argument, contract_.op(), prefix, rule.name, parts...);
  }

  void check_presence(const GivenOperand& operand) const {
    const OperandRule& rule = *operand.rule;
    const View& view = *operand.view;
    if (!view && !rule.may_be_absent) refuse(rule, " is missing (an undefined tensor)");
    if (rule.goes_with && bool(view) != bool(*find(operands_, rule.goes_with).view))
      refuse(rule, view ? " is given without " : " is missing: it goes with ", rule.goes_with);
    if (view && &view.buffer->device() != &contract_.device())
      refuse(rule, " is on another device (", view.buffer->device().name(), ") than the op's (", contract_.device().name(), ")");
  }

  void check_dtype(const OperandRule& rule, const View& view) const {
    DTypes allowed = rule.dtypes;
    if (allowed.like)
      if (const View& other = *find(operands_, allowed.like).view) allowed.set |= 1u << int(other.dtype);
    if (allowed.has(view.dtype)) return;
    allowed.like ? refuse(rule, " is ", view.dtype, ", expected ", listed(allowed), " to go with ", allowed.like)
                 : refuse(rule, " is ", view.dtype, ", expected ", listed(allowed));
  }

  void check_shape(const OperandRule& rule, const View& view) {
    const std::string_view pattern = rule.shape;
    if (pattern == "1") {
      if (view.numel() != 1) refuse(rule, " must hold one element, got shape ", view.shape);
    } else if (!pattern.empty() && !extents_.match(pattern, view.shape)) {
      refuse(rule, " has shape ", view.shape, ", expected ", extents_.expected(pattern));
    }
  }

  void check_layout(const OperandRule& rule, const View& view) const {
    using Layout = OperandRule::Layout;
    if (rule.layout == Layout::packed && !view.contiguous())
      refuse(rule, " must be contiguous, got strides ", view.strides, " for shape ", view.shape);
    if (view.numel() == 0) return;  // nothing will be addressed
    if (rule.layout == Layout::rows) as_rows(view, contract_.op(), rule.name);
    if (rule.layout == Layout::columns && view.shape.back() > 1 && view.strides.back() != 1)
      refuse(rule, " must have unit stride along its last axis, got strides ", view.strides, " for shape ", view.shape);
    if (rule.direction == OperandRule::Direction::in) return;
    for (int axis = 0; axis < view.rank(); ++axis)
      if (view.shape[axis] > 1 && view.strides[axis] == 0)
        refuse(rule, " has stride 0 along axis ", axis, " of shape ", view.shape, ": its elements would be written more than once");
  }

  const Contract& contract_;
  const std::span<const GivenOperand> operands_;
  const ListElement element_;
  Extents extents_;
};

}  // namespace

void check_operands(const Contract& contract, std::span<const GivenOperand> operands, ListElement element) {
  Checker(contract, operands, element).check_all();
}

}  // namespace weft
