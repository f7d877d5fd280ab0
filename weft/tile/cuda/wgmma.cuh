// Tensor cores of Hopper on bf16 with f32 sums, a warpgroup (four warps) at a time: wgmma of PTX, for sm_90a alone. Operands
// lie in shared memory as SwizzledTile has them, or A in registers. Sums are laid out as in mma.cuh: warp w of the group has
// rows [16 w, 16 w + 16), and element n of a lane's array is element n % 4 of the warp's 16x8 fragment n / 4.
#pragma once

#include "weft/tile/cuda/register_tile.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WEFT_HAS_WGMMA 1
#endif

namespace weft::cuda {

// A tile of bf16 in shared memory as the hardware's 128-byte swizzle wants it: columns in panels of 64; a panel's rows are
// 128 bytes, eight of them a 1024-byte block in which piece i (16 bytes) of row r lies at i ^ r. Base: a multiple of 1024.
template <int kRows_, int kColumns_>
struct SwizzledTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kPieces = kColumns / 8, kBytes = kRows * kColumns * 2, kPanel = kRows * 128;
  static_assert(kColumns % 64 == 0 && kRows % 8 == 0);
  uint32_t base;

  __device__ __forceinline__ uint32_t address(int row, int column) const {
    return base + uint32_t(column / 64 * kPanel + row * 128 + ((column / 8 % 8) ^ (row & 7)) * 16 + (column & 7) * 2);
  }

  // Loads the tile's rows [first, first + kCount) asynchronously from memory, `stride` elements apart: `rows` of them and `columns` of
  // each exist, the rest are zeros. Rows are 16-byte aligned and have arrived after copies_wait(). `thread`: which of the kThreads
  // that share the work.
  template <int kThreads, int kCount = kRows>
  __device__ __forceinline__ void load(const __nv_bfloat16* from, int64_t stride, int rows, int columns, int thread, int first = 0) const {
    constexpr int kRowsAtOnce = kThreads / 8;
    static_assert(kCount % kRowsAtOnce == 0 && kRowsAtOnce % 8 == 0);
    const int row0 = thread / 8, column0 = thread % 8 * 8;
    const __nv_bfloat16* source = from + row0 * stride + column0;
    const uint32_t to = address(first + row0, column0);
#pragma unroll
    for (int i = 0; i < kCount / kRowsAtOnce; ++i, source += kRowsAtOnce * stride)
#pragma unroll
      for (int panel = 0; panel < kColumns / 64; ++panel) {
        const bool inside = column0 + panel * 64 < columns && row0 + i * kRowsAtOnce < rows;
        copy_async(to + uint32_t(panel * kPanel + i * kRowsAtOnce * 128), inside ? source + panel * 64 : from, inside ? 16 : 0);
      }
  }
  // The same by one warp, in few registers: for a whole tile one addition a row.
  __device__ __forceinline__ void load_by_warp(const __nv_bfloat16* from, int64_t stride, int rows, int columns, int lane) const {
    const int row0 = lane / 8, column0 = lane % 8 * 8;
    const __nv_bfloat16* source = from + row0 * stride + column0;
    const uint32_t even = address(row0, column0), odd = address(row0 + 4, column0);
    if (rows >= kRows && columns == kColumns) {
#pragma unroll 4
      for (int i = 0; i < kRows / 4; ++i, source += 4 * stride)
#pragma unroll
        for (int panel = 0; panel < kColumns / 64; ++panel)
          copy_async((i % 2 ? odd : even) + uint32_t(panel * kPanel + i / 2 * 1024), source + panel * 64);
    } else {
#pragma unroll 1
      for (int i = 0; i < kRows / 4; ++i, source += 4 * stride)
#pragma unroll
        for (int panel = 0; panel < kColumns / 64; ++panel) {
          const bool inside = column0 + panel * 64 < columns && row0 + i * 4 < rows;
          copy_async((i % 2 ? odd : even) + uint32_t(panel * kPanel + i / 2 * 1024), inside ? source + panel * 64 : from, inside ? 16 : 0);
        }
    }
  }

  __device__ __forceinline__ void put(int row, int column, uint32_t two) const {
    asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(address(row, column)), "r"(two));
  }
  __device__ __forceinline__ uint4 piece(int row, int column) const {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];\n" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address(row, column)));
    return v;
  }

  // Whether the elements that this thread loaded of kCount rows, kThreads / 8 of them at once, include an infinity or a NaN; its
  // copies must have arrived.
  template <int kThreads, int kCount = kRows>
  __device__ __forceinline__ bool loaded_not_finite(int thread, int first = 0) const {
    constexpr int kRowsAtOnce = kThreads / 8;
    bool found = false;
#pragma unroll 1
    for (int row = first + thread / 8; row < first + kCount; row += kRowsAtOnce)
#pragma unroll
      for (int panel = 0; panel < kColumns / 64; ++panel) {
        const uint4 v = piece(row, thread % 8 * 8 + panel * 64);
        for (const uint32_t word : {v.x, v.y, v.z, v.w}) found |= __vcmpeq2(word & 0x7f807f80u, 0x7f807f80u) != 0;
      }
    return found;
  }

  // The descriptor of an operand for wgmma: address, byte offsets between panels and between blocks of eight rows (both in units of
  // 16), the 128-byte swizzle. By rows: 16 columns from `column` of every row from `row`. By columns (transposed): 16 rows from
  // `row` of every column from `column` (a panel's first).
  __device__ __forceinline__ uint64_t by_rows(int row, int column) const {
    return descriptor(base + uint32_t(column / 64 * kPanel + row * 128 + column % 64 * 2), 1);
  }
  __device__ __forceinline__ uint64_t by_columns(int row, int column = 0) const {
    return descriptor(base + uint32_t(column / 64 * kPanel + row * 128), kPanel / 16);
  }

 private:
  __device__ __forceinline__ static uint64_t descriptor(uint32_t at, uint32_t panels) {
    return uint64_t((at & 0x3ffff) >> 4) | uint64_t(panels) << 16 | uint64_t(1024 / 16) << 32 | uint64_t(1) << 62;
  }
};

// A lane's first element lies at (lane_row, lane_column) of its warp's 16 rows; element n lies sum_row(n) below and sum_column(n) to the
// right of it. Its half: 0 for the lane's upper row, 1 for the one eight below.
__device__ __forceinline__ int sum_half(int n) { return n / 2 % 2; }
__device__ __forceinline__ int sum_row(int n) { return n / 2 % 2 * 8; }
__device__ __forceinline__ int sum_column(int n) { return n / 4 * 8 + n % 2; }

// Scores [queries, keys] of keys that come after their query become -inf. query, key: those of this lane's first element.
template <int N>
__device__ __forceinline__ void mask_above_diagonal(float (&s)[N], int query, int key) {
#pragma unroll
  for (int n = 0; n < N; ++n)
    if (key + sum_column(n) > query + sum_row(n)) s[n] = Max::kNone;
}
// Scores of keys up to the diagonal become -inf; query: a window before that of this lane's first element.
template <int N>
__device__ __forceinline__ void mask_below_diagonal(float (&s)[N], int query, int key) {
#pragma unroll
  for (int n = 0; n < N; ++n)
    if (key + sum_column(n) <= query + sum_row(n)) s[n] = Max::kNone;
}
// Both for [keys, queries], with zeros: for weights and their gradients.
template <int N>
__device__ __forceinline__ void zero_above_diagonal(float (&s)[N], int key, int query) {
#pragma unroll
  for (int n = 0; n < N; ++n)
    if (key + sum_row(n) <= query + sum_column(n)) s[n] = 0;
}
template <int N>
__device__ __forceinline__ void zero_below_diagonal(float (&s)[N], int key, int query) {
#pragma unroll
  for (int n = 0; n < N; ++n)
    if (key + sum_row(n) > query + sum_column(n)) s[n] = 0;
}

// The warp's 16 rows, rounded to bf16, as left operands of 16x16 of the next wgmmas.
template <int kOperands, int N>
__device__ __forceinline__ void round_to_operands(FragmentA (&to)[kOperands], const float (&x)[N]) {
  static_assert(8 * kOperands == N);
#pragma unroll
  for (int n = 0; n < kOperands; ++n)
    to[n] = {{pack(x[n * 8], x[n * 8 + 1]), pack(x[n * 8 + 2], x[n * 8 + 3]), pack(x[n * 8 + 4], x[n * 8 + 5]),
              pack(x[n * 8 + 6], x[n * 8 + 7])}};
}

// One of a lane's two rows, times `scale` and rounded to bf16, to row `row` of a tile in shared memory; or both of a warp's from row0 on.
template <class Tile, int N>
__device__ __forceinline__ void put_row(const Tile& tile, int row, const float (&x)[N], int half, float scale, int lane) {
#pragma unroll
  for (int n = 2 * half; n < N; n += 4) tile.put(row, sum_column(n) + lane_column(lane), pack(x[n] * scale, x[n + 1] * scale));
}
template <class Tile, int N>
__device__ __forceinline__ void put_rows(const Tile& tile, int row0, const float (&x)[N], float scale, int lane) {
#pragma unroll
  for (int n = 0; n < N; n += 2)
    tile.put(row0 + lane_row(lane) + sum_row(n), sum_column(n) + lane_column(lane), pack(x[n] * scale, x[n + 1] * scale));
}

// Transposes words within each quad: word i of lane l becomes word l of lane i.
__device__ __forceinline__ void transpose_quad(uint32_t (&w)[4], int lane) {
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
    const bool upper = lane & distance;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int i = distance == 1 ? 2 * k : k, j = i + distance;
      const uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? w[i] : w[j], distance);
      w[i] = upper ? other : w[i], w[j] = upper ? w[j] : other;
    }
  }
}

// A warp writes rows [row0, row0 + kRows) of a tile in shared memory to rows t0 + row0, ... of [B, T, H, D] at (b, h), sixteen bytes
// at a time; `rows` of T and `columns` of D exist.
template <int kRows, class Tile>
__device__ __forceinline__ void store_rows(const Heads<__nv_bfloat16>& to, const Tile& tile, int row0, int b, int h, int t0, int rows,
                                           int columns, int lane) {
  for (int at = lane; at < kRows * Tile::kPieces; at += 32) {
    const int row = row0 + at / Tile::kPieces, column = at % Tile::kPieces * 8;
    if (t0 + row < rows && column < columns) *reinterpret_cast<uint4*>(to.row(b, t0 + row, h) + column) = tile.piece(row, column);
  }
}

// Stores one of a lane's two rows, times `scale` and rounded to bf16, as token t of [B, T, H, D] at (b, h), sixteen bytes at a time. A lane
// has two of each eight columns, so the lanes of a quad exchange them first. `rows` of T and `columns` of D exist.
template <int N>
__device__ __forceinline__ void store_row(const Heads<__nv_bfloat16>& to, const float (&x)[N], int half, float scale, int b, int h, int t,
                                          int rows, int columns, int lane) {
#pragma unroll
  for (int n = 2 * half; n < N; n += 16) {
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = pack(x[n + i * 4] * scale, x[n + i * 4 + 1] * scale);
    transpose_quad(w, lane);
    const int column = n / 16 * 32 + lane % 4 * 8;
    if (t < rows && column < columns) *reinterpret_cast<uint4*>(to.row(b, t, h) + column) = make_uint4(w[0], w[1], w[2], w[3]);
  }
}

#if WEFT_HAS_WGMMA

// Makes writes to registers before visible to the wgmmas after.
__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving uses of these registers over this point: wgmma writes them asynchronously.
template <int N>
__device__ __forceinline__ void pin(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
template <int N>
__device__ __forceinline__ void pin(FragmentA (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(x[i].r[0]), "+r"(x[i].r[1]), "+r"(x[i].r[2]), "+r"(x[i].r[3])::"memory");
}

// Makes what this thread wrote to shared memory (copies too) visible to wgmma after a barrier.
__device__ __forceinline__ void fence_for_wgmma() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

// The inverse of load_matrices.
__device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};\n" ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

#define WEFT_F8(d, i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WEFT_F32(d, i) WEFT_F8(d, i), WEFT_F8(d, i + 8), WEFT_F8(d, i + 16), WEFT_F8(d, i + 24)
#define WEFT_LIST32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WEFT_LIST64 \
  WEFT_LIST32       \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

// d (64 x 2N rows by columns, as 16x8 squares one after the other) = a b (+ d): a 64x16 and b 16x(2N), both by rows.
__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WEFT_LIST64
               "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
               : WEFT_F32(d, 0), WEFT_F32(d, 32)
               : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void multiply(float (&d)[32], uint64_t a, uint64_t b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WEFT_LIST32
               "}, %32, %33, p, 1, 1, 0, 0;\n}\n"
               : WEFT_F32(d, 0)
               : "l"(a), "l"(b), "r"(add));
}
// The same with both by columns.
__device__ __forceinline__ void multiply_by_columns(float (&d)[32], uint64_t a, uint64_t b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WEFT_LIST32
               "}, %32, %33, p, 1, 1, 1, 1;\n}\n"
               : WEFT_F32(d, 0)
               : "l"(a), "l"(b), "r"(add));
}
// The same with a in registers and b by rows.
__device__ __forceinline__ void multiply(float (&d)[32], const FragmentA& a, uint64_t b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WEFT_LIST32
               "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;\n}\n"
               : WEFT_F32(d, 0)
               : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "l"(b), "r"(add));
}
__device__ __forceinline__ void multiply(float (&d)[64], const FragmentA& a, uint64_t b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WEFT_LIST64
               "}, {%64,%65,%66,%67}, %68, p, 1, 1, 0;\n}\n"
               : WEFT_F32(d, 0), WEFT_F32(d, 32)
               : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "l"(b), "r"(add));
}
// d += a b: a 64x16 in registers, b 16x(2N) by columns.
__device__ __forceinline__ void multiply_add(float (&d)[64], const FragmentA& a, uint64_t b) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WEFT_LIST64
               "}, {%64,%65,%66,%67}, %68, p, 1, 1, 1;\n}\n"
               : WEFT_F32(d, 0), WEFT_F32(d, 32)
               : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "l"(b));
}
__device__ __forceinline__ void multiply_add(float (&d)[32], const FragmentA& a, uint64_t b) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WEFT_LIST32
               "}, {%32,%33,%34,%35}, %36, p, 1, 1, 1;\n}\n"
               : WEFT_F32(d, 0)
               : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "l"(b));
}

#undef WEFT_F8
#undef WEFT_F32
#undef WEFT_LIST32
#undef WEFT_LIST64

// Barriers that count arrivals, in shared memory: a phase ends when all have arrived.
__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
// Until the phase of this parity has ended.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra finished;\nbra "
      "again;\nfinished:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

#endif  // WEFT_HAS_WGMMA

}  // namespace weft::cuda
