// The kernels with options: documents, a window, a soft cap.
#include "weft/ops/causal_attention/cuda/launches.cuh"

namespace weft::cuda {

template void forward_pass<true>(Stream&, const Launch&, const AttentionForward&, const LaunchOptions&);
template void backward_pass<true>(Stream&, const Launch&, const CausalAttentionBackwardArgs&, const LaunchOptions&, const float*);

}  // namespace weft::cuda
