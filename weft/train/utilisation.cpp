#include "weft/train/utilisation.h"

#include <utility>

namespace weft {

double Utilisation::of_step(double flops, double seconds) {
  const double rate = flops / seconds;
  if (rate > peak_.rate && measure_) peak_ = std::exchange(measure_, nullptr)();
  if (rate > peak_.rate) peak_ = {};
  return peak_.rate > 0 ? rate / peak_.rate : 0;
}

}  // namespace weft
