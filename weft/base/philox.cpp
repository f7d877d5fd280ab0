#include "weft/base/philox.h"

#include <cmath>
#include <numbers>

namespace weft {

double PhiloxStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log(uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace weft
