// The activation functions that a kernel may apply to a value before it stores it.
#pragma once

#include <cstdint>
#include <ostream>

namespace weft {

enum class Activation : uint8_t { none, relu, silu, gelu_tanh };

constexpr const char* name(Activation kind) {
  switch (kind) {
    case Activation::none: return "none";
    case Activation::relu: return "relu";
    case Activation::silu: return "silu";
    case Activation::gelu_tanh: return "gelu_tanh";
  }
  return "no such activation";
}
constexpr bool known(Activation kind) { return kind <= Activation::gelu_tanh; }
inline std::ostream& operator<<(std::ostream& out, Activation kind) { return out << name(kind); }

}  // namespace weft
