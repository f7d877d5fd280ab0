#include "weft/ops/row_norm/metal.h"

namespace weft::metal {

constexpr const char* kFile = "weft/ops/layer_norm/metal.metal";

void layer_norm(Stream& stream, const LayerNormArgs& args) { norm_rows(stream, args.kOp, kFile, args); }
void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& args) { norm_rows_backward(stream, args.kOp, kFile, args); }

}  // namespace weft::metal
