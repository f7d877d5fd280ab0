#include "weft/ops/matmul_group/matmul_group.h"

#include "weft/ops/matmul/cuda/few_rows.h"

namespace weft::cuda {

void matmul(Stream& stream, const MatmulArgs& args);

// Few rows: one launch for all members that are stored alike. Else one matmul after another: launches in a CUDA stream follow each other
// without a gap, so there is none to close.
void matmul_group(Stream& stream, const MatmulGroupArgs& args) {
  static_assert(MatmulGroupArgs::kMost <= kFewRowsMembers);
  std::vector<MatmulArgs> together;
  for (size_t i = 0; i < args.members.size(); ++i) {
    const MatmulArgs member = args.member(i);
    const MatmulPlan p = plan(member);
    const bool few = p.batch() == 1 && p.M <= kFewRows && p.K > 0 && p.M * p.N > 0;
    if (few && (together.empty() || together.front().transpose_b == member.transpose_b))
      together.push_back(member);
    else
      cuda::matmul(stream, member);
  }
  if (!together.empty()) multiply_few_rows(stream, together, /*ahead=*/true);
}

}  // namespace weft::cuda
