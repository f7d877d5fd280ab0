#include "weft/ops/adamw/adamw.h"
#include "weft/ops/adamw/params.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {

// One dispatch a tensor: a kernel can be given 31 buffers, so no batch of tensors fits; dispatches that share nothing but what
// they read follow each other without a barrier.
void adamw(Stream& stream, const AdamwArgs& a) {
  constexpr const char* kFile = "weft/ops/adamw/metal.metal";
  constexpr int64_t kPiece = 8192;
  const auto low = [](double beta) { return float(beta - double(float(beta))); };
  const AdamwParams p{float(a.beta1), low(a.beta1), float(1 - a.beta1), float(a.beta2), low(a.beta2), float(1 - a.beta2), float(a.eps), 0};
  const auto coefficients = scratch(stream, sizeof(AdamwCoefficients));
  launch(stream, {a.kOp, kFile, "prepare", {constant(0, bool(a.grad_scale))}}, {.groups = {1, 1, 1}, .threads = 1},
         bind(a, {out(*coefficients), params(p), fault(stream)}));
  for (const AdamwTensor& t : a.tensors) {
    const bool aligned = aligned16(t.param) && aligned16(t.grad) && aligned16(t.m) && aligned16(t.v) && aligned16(t.master);
    const AdamwTensorParams tensor{t.param.numel(), t.weight_decay, aligned};
    launch(stream, {a.kOp, kFile, join("update", suffix_of(t.param.dtype), suffix_of(t.grad.dtype)), {constant(0, bool(a.grad_scale))}},
           {.groups = {(tensor.count + kPiece - 1) / kPiece, 1, 1}, .threads = 256},
           {in(t.grad), out(t.m), out(t.v), t.master ? out(t.master) : out(t.param), t.master ? out(t.param) : nothing(), in(*coefficients),
            params(tensor)});
  }
}

}  // namespace weft::metal
