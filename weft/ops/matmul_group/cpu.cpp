#include "weft/ops/matmul_group/matmul_group.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/matmul_group/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/ops/matmul/cpu/skinny.h"

namespace weft::cpu {
void matmul(Stream& stream, const MatmulArgs& args);
}

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// Equation: C_i = A op(B_i) + bias_i for every member i.
// Layout:   as matmul's; the B_i have rank 2.
// Order:    as matmul's, member by member. With few rows (a skinny matmul) the tasks of all members form one list, cut by shape alone.
// Requires: operands of one dtype, results of one dtype. Members without elements are left out.
// Traffic:  one read of A and of every B_i, one write of every C_i.
void matmul_group(Stream& stream, const MatmulGroupArgs& args) {
  std::vector<MatmulArgs> members;
  members.reserve(args.members.size());
  for (size_t i = 0; i < args.members.size(); ++i)
    if (args.members[i].c.numel() > 0) members.push_back(args.member(i));
  if (members.empty()) return;
  const MatmulPlan p = plan(members.front());
  if (p.batch() * p.M > MatmulArgs::kSkinnyRows) {
    for (const MatmulArgs& member : members) cpu::matmul(stream, member);
    return;
  }
  if (args.a.dtype == DType::f32)
    multiply_skinny<float, float>(stream, members);
  else if (members.front().c.dtype == DType::f32)
    multiply_skinny<bf16, float>(stream, members);
  else
    multiply_skinny<bf16, bf16>(stream, members);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(matmul_group, MatmulGroupArgs)
#endif
