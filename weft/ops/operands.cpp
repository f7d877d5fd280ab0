#include "weft/ops/operands.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "weft/device/device.h"

namespace weft {
namespace {

// The extents that operands have set so far.
class Extents {
 public:
  // True when `shape` has the form of `pattern`; the letters of the pattern are then known.
  bool match(const ShapePattern& pattern, const Shape& shape) {
    const int leading = shape.rank() - pattern.rank();
    if (pattern.leading() ? leading < 0 || !match_leading(shape, leading) : leading != 0) return false;
    for (int axis = 0; axis < pattern.rank(); ++axis)
      if (!match_extent(pattern[axis], shape[leading + axis])) return false;
    return true;
  }

  // The pattern with the numbers that are known: "2x3xC".
  std::string expected(const ShapePattern& pattern) const {
    std::string text;
    const auto add = [&](const auto& part) { text += join(text.empty() ? "" : "x", part); };
    if (pattern.leading() && leading_of_) {
      for (int axis = 0; axis < leading_; ++axis) add((*leading_of_)[axis]);
    } else if (pattern.leading()) {
      add("...");
    }
    for (int axis = 0; axis < pattern.rank(); ++axis) {
      if (const int64_t extent = known(pattern[axis]); extent != kUnknown)
        add(extent);
      else
        add(ShapePattern::is_letter(pattern[axis]) ? std::string(1, char('A' + ShapePattern::letter_index(pattern[axis]))) : "(...)");
    }
    return text.empty() ? "scalar" : text;
  }

 private:
  static constexpr int64_t kUnknown = -1;

  int64_t known(int64_t axis) const {
    if (axis >= 0) return axis;
    if (axis == ShapePattern::kRows) return rows();
    const int letter = ShapePattern::letter_index(axis);
    return known_letters_ >> letter & 1 ? letters_[letter] : kUnknown;
  }
  int64_t rows() const {
    if (!leading_of_) return kUnknown;
    int64_t rows = 1;
    for (int axis = 0; axis < leading_; ++axis) rows *= (*leading_of_)[axis];
    return rows;
  }
  bool match_extent(int64_t axis, int64_t extent) {
    if (ShapePattern::is_letter(axis) && known(axis) == kUnknown) {
      const int letter = ShapePattern::letter_index(axis);
      letters_[letter] = extent;
      known_letters_ |= 1u << letter;
    }
    return known(axis) == extent;
  }
  bool match_leading(const Shape& shape, int count) {
    if (leading_of_) return count == leading_ && std::equal(shape.begin(), shape.begin() + count, leading_of_->begin());
    leading_of_ = &shape;
    leading_ = count;
    return true;
  }

  int64_t letters_['Z' - 'A' + 1];
  uint32_t known_letters_ = 0;
  const Shape* leading_of_ = nullptr;  // the operand whose first axes are "..."
  int leading_ = 0;                    // how many they are
};

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
    if (rule.goes_with && bool(view) != bool(*operands_[size_t(rule.goes_with_index)].view))
      refuse(rule, view ? " is given without " : " is missing: it goes with ", rule.goes_with);
    if (view && &view.buffer->device() != &contract_.device())
      refuse(rule, " is on another device (", view.buffer->device().name(), ") than the op's (", contract_.device().name(), ")");
  }

  void check_dtype(const OperandRule& rule, const View& view) const {
    DTypes allowed = rule.dtypes;
    if (allowed.like)
      if (const View& other = *operands_[size_t(rule.like_index)].view) allowed.set |= 1u << int(other.dtype);
    if (allowed.has(view.dtype)) return;
    allowed.like ? refuse(rule, " is ", view.dtype, ", expected ", listed(allowed), " to go with ", allowed.like)
                 : refuse(rule, " is ", view.dtype, ", expected ", listed(allowed));
  }

  void check_shape(const OperandRule& rule, const View& view) {
    const ShapePattern& pattern = rule.shape;
    if (pattern.scalar()) {
      if (view.numel() != 1) refuse(rule, " must hold one element, got shape ", view.shape);
    } else if (!pattern.any() && !extents_.match(pattern, view.shape)) {
      refuse(rule, " has shape ", view.shape, ", expected ", extents_.expected(pattern));
    }
  }

  void check_layout(const OperandRule& rule, const View& view) const {
    using Layout = OperandRule::Layout;
    if (rule.layout == Layout::packed && !view.contiguous())
      refuse(rule, " must be contiguous, got strides ", view.strides, " for shape ", view.shape);
    if (view.numel() == 0) return;  // nothing will be addressed
    if (rule.layout == Layout::rows) as_rows(view, contract_.op(), rule.name);
    if (rule.layout == Layout::columns && view.rank() > 0 && view.shape.back() > 1 && view.strides.back() != 1)
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
