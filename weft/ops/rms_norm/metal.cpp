#include "weft/ops/row_norm/metal.h"

namespace weft::metal {

constexpr const char* kFile = "weft/ops/rms_norm/metal.metal";

void rms_norm(Stream& stream, const RmsNormArgs& args) { norm_rows(stream, args.kOp, kFile, row_norm_args(args)); }
void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) {
  norm_rows_backward(stream, args.kOp, kFile, row_norm_args(args));
}

}  // namespace weft::metal
