// wgmma with 192 columns of sums.
#pragma once

#include "weft/tile/cuda/wgmma.cuh"

namespace weft::cuda {

#if WEFT_HAS_WGMMA

#define WEFT_F8(d, i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WEFT_F32(d, i) WEFT_F8(d, i), WEFT_F8(d, i + 8), WEFT_F8(d, i + 16), WEFT_F8(d, i + 24)

// d (64 x 192, as 16x8 squares one after the other) += a b: a 64x16 by rows, b 16x192 by columns or by rows.
template <bool kByColumns>
__device__ __forceinline__ void multiply_add(float (&d)[96], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
      "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95}, "
      "%96, %97, p, 1, 1, 0, %98;\n}\n"
      : WEFT_F32(d, 0), WEFT_F32(d, 32), WEFT_F32(d, 64)
      : "l"(a), "l"(b), "n"(kByColumns ? 1 : 0));
}

#undef WEFT_F8
#undef WEFT_F32

#endif  // WEFT_HAS_WGMMA

}  // namespace weft::cuda
