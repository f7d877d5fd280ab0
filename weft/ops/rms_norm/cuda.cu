#include "weft/ops/row_norm/cuda.cuh"

namespace weft::cuda {

void rms_norm(Stream& stream, const RmsNormArgs& args) { launch_norm</*kCentred=*/false>(stream, row_norm_args(args), args.x.dtype); }
void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) {
  launch_norm</*kCentred=*/false>(stream, row_norm_args(args), args.dy.dtype);
}

}  // namespace weft::cuda
