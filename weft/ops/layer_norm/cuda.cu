#include "weft/ops/row_norm/cuda.cuh"

namespace weft::cuda {

void layer_norm(Stream& stream, const LayerNormArgs& args) { launch_norm</*kCentred=*/true>(stream, args, args.x.dtype); }
void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& args) { launch_norm</*kCentred=*/true>(stream, args, args.dy.dtype); }

}  // namespace weft::cuda
