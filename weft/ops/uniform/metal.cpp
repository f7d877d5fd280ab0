#include "weft/ops/uniform/params.h"
#include "weft/ops/uniform/uniform.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/uniform/metal.metal";

}  // namespace

void uniform(Stream& stream, const UniformArgs& a) {
  const int64_t count = a.out.numel();
  const UniformParams p{count, a.site, aligned16(a.out), a.low, a.high - a.low};
  launch(stream, {a.kOp, kFile, "draw", {}}, {.groups = {(count + 1023) / 1024, 1, 1}, .threads = 256}, bind(a, {params(p)}));
}

void advance_state(Stream& stream, const AdvanceStateArgs& a) {
  launch(stream, {a.kOp, kFile, "advance", {}}, {.groups = {1, 1, 1}, .threads = 1}, bind(a));
}

}  // namespace weft::metal
