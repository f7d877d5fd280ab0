#include "weft/ops/matmul_group/matmul_group.h"

namespace weft::cuda {

void matmul(Stream& stream, const MatmulArgs& args);

// One matmul after another: launches in a CUDA stream follow each other without a gap, so there is none to close.
void matmul_group(Stream& stream, const MatmulGroupArgs& args) {
  for (size_t i = 0; i < args.members.size(); ++i) cuda::matmul(stream, args.member(i));
}

}  // namespace weft::cuda
