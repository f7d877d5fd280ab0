// Reports faults in the data to the host. The first report since the host last checked is kept.
#pragma once

#include "weft/tile/cuda/runtime.h"

namespace weft::cuda {

__device__ __forceinline__ void report(Fault* fault, Fault::Kind kind, const char* op, long long value, long long at, long long limit) {
  if (atomicCAS(fault->claimed, 0, 1) != 0) return;
  fault->op = op;
  fault->value = value;
  fault->at = at;
  fault->limit = limit;
  __threadfence_system();
  fault->kind = kind;
}

}  // namespace weft::cuda
