// The operands of an op, declared once, in its Args struct:
//
//   struct RmsNormArgs {
//     static constexpr const char* kOp = "rms_norm";
//     View x, residual, w;
//     MutView h, y, rstd;
//     float eps;
//
//     static constexpr auto operands() {
//       using namespace operand;
//       using A = RmsNormArgs;
//       return std::array{in("x", &A::x, "... C", kFloats).rows(),
//                         in("residual", &A::residual, "... C", like("x")).rows().optional(),
//                         in("w", &A::w, "C", like("x", DType::f32)),
//                         out("h", &A::h, "... C", like("x")).rows().with("residual"),
//                         out("y", &A::y, "... C", like("x")).rows(),
//                         out("rstd", &A::rstd, "(...)", DType::f32)};
//     }
//   };
//
// From this list come the contract (check_operands), the bytes of cost() (operand_bytes), the tensors that a spec binds by name
// (Problem::launches) and the order of Metal's buffers (metal::bind).
//
// A shape is written in words separated by spaces. A capital letter is an extent: the first operand that has it sets it, the
// others must agree. "..." in front stands for any number of axes, the same ones everywhere; "(...)" is one axis as long as all
// of them together. A number is itself. "1" alone is a device scalar: one element of any rank. "" is any shape.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "weft/ops/contract.h"
#include "weft/ops/shape_pattern.h"

namespace weft {

// A set of dtypes, to which the dtype of another operand may belong.
struct DTypes {
  uint32_t set = 0;  // bit i: the dtype with the value i
  const char* like = nullptr;

  constexpr DTypes() = default;
  template <class... More>
  constexpr DTypes(DType first, More... more) : set(((1u << int(first)) | ... | (1u << int(more)))) {}
  constexpr bool has(DType dtype) const { return set >> int(dtype) & 1; }
};

struct OperandRule {
  enum class Direction { in, out, in_out };
  // packed: contiguous. rows: unit stride along the last axis, one stride between rows. columns: unit stride along the last
  // axis, any stride along the others. strided: any strides. An output never has two elements in one place.
  enum class Layout { packed, rows, columns, strided };

  const char* name;
  ShapePattern shape;
  DTypes dtypes;
  Direction direction;
  Layout layout = Layout::packed;
  bool may_be_absent = false;
  bool counted = true;              // in operand_bytes
  const char* goes_with = nullptr;  // present exactly when that operand is
  // The places of goes_with and of dtypes.like in the list.
  int goes_with_index = -1, like_index = -1;
};

template <class Args>
struct Operand : OperandRule {
  using Input = View Args::*;
  using Output = MutView Args::*;
  Input input = nullptr;
  Output output = nullptr;

  constexpr const View& view(const Args& args) const { return output ? args.*output : args.*input; }

  constexpr Operand rows() const { return laid_out(Layout::rows); }
  constexpr Operand columns() const { return laid_out(Layout::columns); }
  constexpr Operand strided() const { return laid_out(Layout::strided); }
  constexpr Operand optional() const { return with(nullptr); }
  // Present exactly when the operand `other` is.
  constexpr Operand with(const char* other) const {
    Operand result = *this;
    result.may_be_absent = true;
    result.goes_with = other;
    return result;
  }
  // The kernel touches a part of it that only the op's formula knows: cost() adds those bytes itself.
  constexpr Operand uncounted() const {
    Operand result = *this;
    result.counted = false;
    return result;
  }

 private:
  constexpr Operand laid_out(Layout layout) const {
    Operand result = *this;
    result.layout = layout;
    return result;
  }
};

// The words of a declaration.
namespace operand {

inline constexpr DTypes kFloats{DType::f32, DType::bf16};
inline constexpr DTypes kIds{DType::i32, DType::u32};
inline constexpr DTypes kAny{DType::f32, DType::bf16, DType::f16, DType::i32, DType::u32, DType::u8};

// The dtype of the operand `other`, or one of `also`.
template <class... Also>
constexpr DTypes like(const char* other, Also... also) {
  DTypes dtypes;
  if constexpr (sizeof...(also) > 0) dtypes = DTypes(also...);
  dtypes.like = other;
  return dtypes;
}

template <class Args>
constexpr Operand<Args> in(const char* name, View Args::* member, const char* shape, DTypes dtypes) {
  return {{name, shape, dtypes, OperandRule::Direction::in}, member, nullptr};
}
template <class Args>
constexpr Operand<Args> out(const char* name, MutView Args::* member, const char* shape, DTypes dtypes) {
  return {{name, shape, dtypes, OperandRule::Direction::out}, nullptr, member};
}
// Read and then written.
template <class Args>
constexpr Operand<Args> in_out(const char* name, MutView Args::* member, const char* shape, DTypes dtypes) {
  return {{name, shape, dtypes, OperandRule::Direction::in_out}, nullptr, member};
}

}  // namespace operand

// The list with every name that a rule refers to found. An unknown name does not compile.
template <class List>
constexpr List linked(List list) {
  const auto index_of = [&](const char* name) {
    if (!name) return -1;
    for (size_t i = 0; i < list.size(); ++i)
      if (std::string_view(list[i].name) == name) return int(i);
    throw "like() or with() names an operand that is not in the list";
  };
  for (auto& operand : list) {
    operand.goes_with_index = index_of(operand.goes_with);
    operand.like_index = index_of(operand.dtypes.like);
  }
  return list;
}

template <class Args>
concept DeclaresOperands = requires { Args::operands(); };

// An element of a list of structs: its operands are "tensors[3].grad" in messages.
struct ListElement {
  const char* list = nullptr;
  size_t index = 0;
};

struct GivenOperand {
  const OperandRule* rule;
  const View* view;
};
void check_operands(const Contract& contract, std::span<const GivenOperand> operands, ListElement element = {});

// Throws, naming op, operand and values, unless the operands are as declared and on the stream's device.
template <DeclaresOperands Args>
void check_operands(const Contract& contract, const Args& args, ListElement element = {}) {
  static constexpr auto kOperands = linked(Args::operands());
  std::array<GivenOperand, kOperands.size()> given;
  for (size_t i = 0; i < given.size(); ++i) given[i] = {&kOperands[i], &kOperands[i].view(args)};
  check_operands(contract, given, element);
}
// Returns the contract, for checks of the op's numbers.
template <DeclaresOperands Args>
Contract check_operands(const Stream& stream, const Args& args) {
  const Contract contract(Args::kOp, stream);
  check_operands(contract, args);
  return contract;
}

// The bytes of all operands; one that is read and then written counts twice.
template <DeclaresOperands Args>
double operand_bytes(const Args& args) {
  double bytes = 0;
  for (const auto& operand : Args::operands())
    if (operand.counted) bytes += (operand.direction == OperandRule::Direction::in_out ? 2 : 1) * bytes_of(operand.view(args));
  return bytes;
}

}  // namespace weft
