// Matmuls through cuBLASLt with f32 accumulation (TF32 only if requested), deterministic: the algorithm is what cuBLASLt's heuristic
// returns for the shape, layout and alignment, asked once and cached; no reduction in place (atomics). The cache holds about kMost plans,
// the least recently used are dropped: a graph does not need them (a plan is host memory, read while a matmul is queued or captured), and
// the heuristic returns the same again.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <tuple>

#include "weft/tile/cuda/runtime.h"
#include "weft/base/dtype.h"
#include "weft/base/recent.h"

namespace weft::cuda {

// D = alpha op(A) op(B) + beta D (+ bias along N), row-major, strided batches.
struct BlasProduct {
  DType in, out;
  bool tf32 = false;  // f32 operands may be rounded to TF32
  bool transpose_a = false, transpose_b = false;
  int64_t M, N, K;
  int64_t lda, ldb, ldd;                                  // elements from row to row as stored
  int64_t batch = 1, step_a = 0, step_b = 0, step_d = 0;  // elements from matrix to matrix
  bool bias = false;
  DType bias_dtype = DType::f32;
  int align_a = 16, align_b = 16, align_d = 16;  // bytes, of every row of every matrix

  auto key() const {
    return std::tuple(in, out, tf32, transpose_a, transpose_b, M, N, K, lda, ldb, ldd, batch, step_a, step_b, step_d, bias, bias_dtype,
                      align_a, align_b, align_d);
  }
};

class Blas {
 public:
  static constexpr size_t kMost = 1024;

  explicit Blas(const CudaStream& stream);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  void multiply(Stream& stream, const BlasProduct& product, const void* a, const void* b, void* d, const void* bias, float alpha,
                float beta);

 private:
  struct Plan;
  using Key = decltype(std::declval<BlasProduct>().key());
  struct Hash {
    size_t operator()(const Key& key) const {
      size_t h = 0;
      std::apply([&](auto... part) { ((h = (h ^ size_t(part)) * 0x9e3779b97f4a7c15u, h ^= h >> 32), ...); }, key);
      return h;
    }
  };

  Plan& plan(const BlasProduct& product);

  cublasLtHandle_t handle_ = nullptr;
  Recent<Key, std::unique_ptr<Plan>, Hash> plans_;
};

}  // namespace weft::cuda
