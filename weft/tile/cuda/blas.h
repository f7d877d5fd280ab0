// Matmuls through cuBLASLt with f32 accumulation (TF32 only if requested), deterministic: the algorithm is one of those that cuBLASLt's
// heuristic returns for the shape, layout and alignment, asked once and cached; no reduction in place (atomics). The cache holds about
// kMost plans, the least recently used are dropped: a graph does not need them (a plan is host memory, read while a matmul is queued or
// captured), and the heuristic returns the same again.
//
// An `ordered` product takes the first algorithm that does not split K and has the bits of the plain order (order_check.h) at 1, 7, 64,
// 129, 1000 and 4096 rows: with it a row has the same bits whatever the number of rows. There may be none.
#pragma once

#include <cublasLt.h>

#include <array>
#include <bit>
#include <map>
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
  bool ordered = false;                          // no batch, A not transposed
  float alpha = 1, beta = 0;

  auto key() const {
    return std::tuple(in, out, tf32, transpose_a, transpose_b, M, N, K, lda, ldb, ldd, batch, step_a, step_b, step_d, bias, bias_dtype,
                      align_a, align_b, align_d, ordered, ordered ? std::bit_cast<uint32_t>(alpha) : 0,
                      ordered ? std::bit_cast<uint32_t>(beta) : 0);
  }
  // Of an ordered product: what the order of an algorithm may depend on.
  auto order_key() const {
    return std::tuple(in, out, transpose_b, N, K, lda, ldb, ldd, bias, bias_dtype, align_a, align_b, align_d, alpha, beta);
  }
};

class Blas {
 public:
  static constexpr size_t kMost = 1024;

  explicit Blas(const CudaStream& stream);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // False, and nothing done, if the product is ordered and no algorithm has the order.
  bool multiply(Stream& stream, const BlasProduct& product, const void* a, const void* b, void* d, const void* bias);

 private:
  struct Plan;
  struct TestRun;
  using Algorithm = std::array<uint64_t, 8>;  // cublasLtMatmulAlgo_t
  using Order = std::pair<decltype(std::declval<BlasProduct>().order_key()), Algorithm>;
  using Key = decltype(std::declval<BlasProduct>().key());
  struct Hash {
    size_t operator()(const Key& key) const {
      size_t h = 0;
      std::apply([&](auto... part) { ((h = (h ^ size_t(part)) * 0x9e3779b97f4a7c15u, h ^= h >> 32), ...); }, key);
      return h;
    }
  };

  Plan& plan(const CudaStream& stream, const BlasProduct& product, const void* b, const void* bias);
  std::unique_ptr<Plan> describe(const BlasProduct& product) const;
  bool has_order(const CudaStream& stream, const BlasProduct& product, const cublasLtMatmulAlgo_t& algorithm, const void* b,
                 const void* bias);
  bool passes(const TestRun& run, int64_t rows) const;

  cublasLtHandle_t handle_ = nullptr;
  std::map<Order, bool> orders_;  // algorithms that were tested
  Recent<Key, std::unique_ptr<Plan>, Hash> plans_;
};

}  // namespace weft::cuda
