// A vector that every row of a launch uses (a weight, a bias) as f32: widened once, not once a row.

#if defined(WEFT_TILE_CPU_WIDENED_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_WIDENED_H_
#undef WEFT_TILE_CPU_WIDENED_H_
#else
#define WEFT_TILE_CPU_WIDENED_H_
#endif

#include <optional>

#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// n contiguous elements, f32 or bf16; an absent view gives nullptr.
class Widened {
 public:
  Widened(const Stream& stream, const View& view, int64_t n) : values_(weft::data<float>(view)) {
    if (!values_ || view.dtype == DType::f32) return;
    const bf16* from = weft::data<bf16>(view);
    float* to = copy_.emplace(stream, n).data();
    for_each_block(n, [=](At at) HWY_ATTR { at.store(at.load(from), to); });
    values_ = to;
  }
  const float* data() const { return values_; }

 private:
  const float* values_;
  std::optional<Scratch<float>> copy_;
};

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
