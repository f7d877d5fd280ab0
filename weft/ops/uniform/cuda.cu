#include "weft/ops/uniform/uniform.h"
#include "weft/tile/cuda/launch.h"
#include "weft/tile/cuda/philox.cuh"

namespace weft::cuda {
namespace {

// Equation: out[i] = low + (high - low) unit(word i).
// Layout:   out packed; state {key_lo, key_hi, step_lo, step_hi}.
// Order:    every element on its own, by its index; four to a thread.
// Requires: at most 2^34 elements (the contract's).
// Traffic:  one write of out.
__global__ void draw(const uint32_t* state, uint32_t site, float* out, int64_t count, float low, float range) {
  const int64_t block = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (block * 4 >= count) return;
  const PhiloxBlock words = random_block(state, site, block);
  for (int i = 0; i < 4 && block * 4 + i < count; ++i) out[block * 4 + i] = __fadd_rn(__fmul_rn(unit_float(words[i]), range), low);
}

// Equation: step = step + 1, modulo 2^64.
// Layout:   state {key_lo, key_hi, step_lo, step_hi}.
// Order:    one thread.
// Requires: nothing more.
// Traffic:  the state's sixteen bytes.
__global__ void advance(uint32_t* state) {
  const uint64_t step = (uint64_t(state[3]) << 32 | state[2]) + 1;
  state[2] = uint32_t(step);
  state[3] = uint32_t(step >> 32);
}

}  // namespace

void uniform(Stream& stream, const UniformArgs& a) {
  const int64_t count = a.out.numel();
  Launch(stream, a.kOp, {&a.out})(unsigned((count + 1023) / 1024), 256, 0, draw, data<uint32_t>(a.state), a.site, data<float>(a.out), count,
                                  a.low, a.high - a.low);
}

void advance_state(Stream& stream, const AdvanceStateArgs& a) {
  Launch(stream, a.kOp, {&a.state})(1, 1, 0, advance, data<uint32_t>(a.state));
}

}  // namespace weft::cuda
