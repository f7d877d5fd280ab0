// Reports faults in the data to the host. The launcher passes fault(stream); the first report of a launch is kept and raised at
// the next synchronize. Kinds: weft/tile/metal/fault.h.
//
//   kernel void gather(..., device weft::Fault& fault [[buffer(4)]]) {
//     if (id < 0 || id >= rows) return weft::report(fault, weft::metal_fault::id_out_of_range, id, position, rows);
#pragma once

#include <metal_stdlib>

#include "weft/tile/metal/fault.h"

namespace weft {

using Fault = metal_fault::Record;

inline void report(device Fault& fault, metal_fault::Kind kind, long value, long at, long limit) {
  if (metal::atomic_exchange_explicit(&fault.claimed, 1, metal::memory_order_relaxed) != 0) return;
  fault.kind = kind;
  fault.value = value;
  fault.at = at;
  fault.limit = limit;
}

}  // namespace weft
