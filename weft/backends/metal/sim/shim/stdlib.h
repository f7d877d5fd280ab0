// <metal_stdlib> for the simulator: prepended to every rewritten kernel text.
#pragma once
#pragma clang system_header

#include <weft_sim/atomic.h>
#include <weft_sim/glue.h>
#include <weft_sim/integer.h>
#include <weft_sim/limits.h>
#include <weft_sim/math.h>
#include <weft_sim/matrix.h>
#include <weft_sim/simd.h>
#ifdef WEFT_SIM_INSTRUMENTED
#include <weft_sim/checks.h>
#endif

// libgcc 12 has no conversion from float to bfloat.
extern "C" __attribute__((visibility("hidden"), weak)) __bf16 __truncsfbf2(float x) {
  const uint bits = as_type<uint>(x);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return as_type<__bf16>(ushort((nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1)) >> 16));
}
