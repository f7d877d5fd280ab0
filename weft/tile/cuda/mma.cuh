// Tensor cores on bf16 with f32 sums, one warp at a time: the 16x8x16 multiply-add of PTX, and how its operands are loaded from shared
// memory. Fragments are laid out as PTX defines (mma.sync.aligned.m16n8k16): of a 16x8 sum, lane l has the elements
// (l / 4, 2 (l % 4)) and its right neighbour, and the same eight rows below.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace weft::cuda {

struct FragmentA {  // 16 x 16
  uint32_t r[4];
};
struct FragmentB {  // 16 x 8
  uint32_t r[2];
};
// Position of a lane's first element in a fragment of sums.
__device__ __forceinline__ int lane_row(int lane) { return lane / 4; }
__device__ __forceinline__ int lane_column(int lane) { return lane % 4 * 2; }

struct FragmentC {  // 16 x 8, f32
  float x[4];

  // Position of element i of a lane's four.
  __device__ __forceinline__ static int row(int i, int lane) { return lane_row(lane) + i / 2 * 8; }
  __device__ __forceinline__ static int column(int i, int lane) { return lane_column(lane) + i % 2; }
};

__device__ __forceinline__ void multiply_add(FragmentC& c, const FragmentA& a, const FragmentB& b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
}

__device__ __forceinline__ uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

// Four 8x8 matrices; lane l passes the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

// Two neighbouring sums of 16x8, rounded to bf16, as the 16x16 operand of the next matmul.
__device__ __forceinline__ FragmentA as_operand(const FragmentC& left, const FragmentC& right) {
  return {{pack(left.x[0], left.x[1]), pack(left.x[2], left.x[3]), pack(right.x[0], right.x[1]), pack(right.x[2], right.x[3])}};
}

// Copies sixteen bytes from global to shared memory asynchronously; `bytes` of them are read, the rest are zeros.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void copy_async(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(to), "l"(from));
}
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;\n"); }
template <int kPending>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

// A tile of bf16 in shared memory, kRows rows of kColumns (16, 32 or a multiple of 64). Sixteen-byte pieces of a row are stored in
// the order piece ^ (row % 8), so that eight rows of one piece lie in different banks. Of narrow rows several lie side by side in the
// 128 bytes of all banks; they share an order.
template <int kRows_, int kColumns_>
struct SharedTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kPieces = kColumns / 8, kBytes = kRows * kColumns * 2;
  static constexpr int kSideBySide = kColumns < 64 ? 64 / kColumns : 1, kOrders = 8 / kSideBySide;
  static_assert(kColumns % 64 == 0 || kColumns == 32 || kColumns == 16);
  uint32_t base;

  __device__ __forceinline__ uint32_t address(int row, int column) const {
    return base + uint32_t(row * kColumns * 2 + ((column / 8) ^ (row / kSideBySide & (kOrders - 1))) * 16 + (column & 7) * 2);
  }

  // Loads the tile's rows [0, rows) from memory, `stride` elements apart, of which `columns` exist; the rest are zeros. Aligned rows are
  // copied asynchronously and have arrived after copies_wait(); the others at once.
  // `thread`: which of the kThreads that share the work.
  template <int kThreads>
  __device__ __forceinline__ void load(const __nv_bfloat16* from, int64_t stride, int rows, int columns, bool aligned, int thread) const {
    static_assert(kRows * kPieces % kThreads == 0);
#pragma unroll
    for (int i = 0; i < kRows * kPieces / kThreads; ++i) {
      const int at = i * kThreads + thread, row = at / kPieces, column = at % kPieces * 8;
      const bool inside = row < rows && column < columns;
      const __nv_bfloat16* source = inside ? from + row * stride + column : from;
      if (aligned) {
        copy_async(address(row, column), source, inside ? 16 : 0);
      } else {
        uint32_t word[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const auto element = [&](int k) { return inside && column + k < columns ? uint32_t(__bfloat16_as_ushort(source[k])) : 0u; };
          word[w] = element(2 * w) | element(2 * w + 1) << 16;
        }
        asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};\n" ::"r"(address(row, column)), "r"(word[0]), "r"(word[1]), "r"(word[2]),
                     "r"(word[3]));
      }
    }
  }

  // Operand A: rows [row, row + 16), columns [column, column + 16).
  __device__ __forceinline__ FragmentA a(int row, int column) const {
    const int lane = int(threadIdx.x) & 31;
    FragmentA f;
    load_matrices(f.r, address(row + lane % 16, column + lane / 16 * 8));
    return f;
  }
  // Operand A = tile^T: its columns are rows [k, k + 16) of the tile, its rows columns [i, i + 16).
  __device__ __forceinline__ FragmentA a_transposed(int k, int i) const {
    const int lane = int(threadIdx.x) & 31;
    FragmentA f;
    load_matrices_transposed(f.r, address(k + lane % 8 + lane / 16 * 8, i + lane / 8 % 2 * 8));
    return f;
  }
  // Operand B = tile^T: two 16x8 operands whose columns are rows [n, n + 16) of the tile, over columns [k, k + 16).
  __device__ __forceinline__ void b_transposed(FragmentB (&f)[2], int n, int k) const {
    const int lane = int(threadIdx.x) & 31;
    uint32_t r[4];
    load_matrices(r, address(n + lane % 8 + lane / 16 * 8, k + lane / 8 % 2 * 8));
    f[0] = {{r[0], r[1]}};
    f[1] = {{r[2], r[3]}};
  }
  // Operand B = tile: rows [k, k + 16), two operands of columns [n, n + 8) and [n + 8, n + 16).
  __device__ __forceinline__ void b(FragmentB (&f)[2], int k, int n) const {
    const int lane = int(threadIdx.x) & 31;
    uint32_t r[4];
    load_matrices_transposed(r, address(k + lane % 16, n + lane / 16 * 8));
    f[0] = {{r[0], r[1]}};
    f[1] = {{r[2], r[3]}};
  }

  // Whether this thread's share of the tile holds an infinity or a NaN.
  template <int kThreads>
  __device__ __forceinline__ bool some_not_finite() const {
    bool found = false;
    for (int at = int(threadIdx.x); at < kRows * kPieces; at += kThreads) {
      const uint4 v = piece(at / kPieces, at % kPieces * 8);
      for (const uint32_t word : {v.x, v.y, v.z, v.w}) found |= __vcmpeq2(word & 0x7f807f80u, 0x7f807f80u) != 0;
    }
    return found;
  }

  __device__ __forceinline__ void put(int row, int column, uint32_t two) const {
    asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(address(row, column)), "r"(two));
  }
  __device__ __forceinline__ uint4 piece(int row, int column) const {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];\n" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address(row, column)));
    return v;
  }
};

}  // namespace weft::cuda
