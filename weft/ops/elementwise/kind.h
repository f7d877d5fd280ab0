// The names of the activation functions (weft/tile/activation.h).
#pragma once

#include <ostream>

#include "weft/tile/activation.h"

namespace weft {

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
