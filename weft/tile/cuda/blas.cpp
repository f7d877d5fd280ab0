#include "weft/tile/cuda/blas.h"

#include <algorithm>
#include <cstring>

#include "weft/tile/cuda/order_check.h"

namespace weft::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t(32) << 20;  // cuBLAS recommends as much for Hopper
constexpr int kCandidates = 16;
constexpr int64_t kTestRows[] = {1, 7, 64, 129, 1000, 4096};
constexpr int64_t kLeastRows = 129;                // of a test, where memory is short
constexpr int64_t kTestBytes = int64_t(64) << 20;  // of a test's result: fewer rows where they are long

void require(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(ErrorCode::device_fault, "matmul", what, " failed: ", cublasLtGetStatusString(status));
}

cudaDataType_t type_of(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

}  // namespace

// cuBLASLt is column-major: it computes D^T = op(B)^T op(A)^T, whose memory is D row by row.
struct Blas::Plan {
  cublasLtMatmulDesc_t work = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulHeuristicResult_t choice{};
  bool usable = false;

  ~Plan() {
    if (a) cublasLtMatrixLayoutDestroy(a);
    if (b) cublasLtMatrixLayoutDestroy(b);
    if (d) cublasLtMatrixLayoutDestroy(d);
    if (work) cublasLtMatmulDescDestroy(work);
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    require(cublasLtMatmulDescSetAttribute(work, attribute, &value, sizeof value), "describing a product");
  }

  static cublasLtMatrixLayout_t layout(DType dtype, int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t step) {
    cublasLtMatrixLayout_t made = nullptr;
    require(cublasLtMatrixLayoutCreate(&made, type_of(dtype), uint64_t(rows), uint64_t(columns), ld), "describing a matrix");
    const int32_t count = int32_t(batch);
    require(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "describing a batch");
    require(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step), "describing a batch");
    return made;
  }
};

Blas::Blas(const CudaStream& stream) {
  cudaSetDevice(stream.index());
  require(cublasLtCreate(&handle_), "opening cuBLASLt");
}

Blas::~Blas() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

std::unique_ptr<Blas::Plan> Blas::describe(const BlasProduct& p) const {
  auto made = std::make_unique<Plan>();
  require(cublasLtMatmulDescCreate(&made->work, p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "describing a product");
  made->set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  made->set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.bias) {
    made->set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    made->set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.bias_dtype));
  }
  // A stored row of ours is a column of theirs.
  made->a = Plan::layout(p.in, p.transpose_b ? p.K : p.N, p.transpose_b ? p.N : p.K, p.ldb, p.batch, p.step_b);
  made->b = Plan::layout(p.in, p.transpose_a ? p.M : p.K, p.transpose_a ? p.K : p.M, p.lda, p.batch, p.step_a);
  made->d = Plan::layout(p.out, p.N, p.M, p.ldd, p.batch, p.step_d);
  return made;
}

// Operands of a test, with the product's own strides and so its alignment, outside the pool: they are given back before the product
// runs. A W that would take more than kTestBytes is the product's own, as is its bias: such a result is f32 in practice (logits).
struct Blas::TestRun {
  const BlasProduct& product;
  const cublasLtMatmulAlgo_t& algorithm;
  const void *b, *bias;
  int64_t most_rows;
  bool own_w;
  cudaStream_t stream = nullptr;
  char* memory = nullptr;  // null: there was too little

  TestRun(const BlasProduct& p, const cublasLtMatmulAlgo_t& algorithm, const void* b, const void* bias)
      : product(p), algorithm(algorithm), b(b), bias(bias) {
    most_rows = std::clamp<int64_t>(kTestBytes / (std::max(p.ldd * size_of(p.out), p.lda * size_of(p.in))), 1, std::ranges::max(kTestRows));
    own_w = w_rows() * p.ldb * size_of(p.in) <= 2 * kTestBytes;
    require_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "opening a stream");
    while (cudaMalloc(&memory, size_t(bytes())) != cudaSuccess) {
      cudaGetLastError();
      memory = nullptr;
      if (most_rows / 8 < kLeastRows) return;
      most_rows /= 8;
      own_w = false;
    }
    if (!own_w) return;
    this->b = w(), this->bias = bias_memory();
    fill_cancelling(stream, w(), {p.in, w_rows(), p.transpose_b ? p.K : p.N, p.ldb, p.transpose_b, true}, 7);
    if (p.bias) fill_test_values(stream, bias_memory(), p.bias_dtype, p.N, 3, -17);  // as small as the rounding of the sums
  }
  ~TestRun() {
    if (memory) cudaFree(memory);
    if (stream) cudaStreamDestroy(stream);
  }
  TestRun(const TestRun&) = delete;
  TestRun& operator=(const TestRun&) = delete;

  static void require_cuda(cudaError_t status, const char* what) { cuda::require(status, "matmul", what); }
  static int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }
  int64_t w_rows() const { return product.transpose_b ? product.N : product.K; }
  int64_t x_bytes() const { return rounded(most_rows * product.lda * size_of(product.in)); }
  int64_t d_bytes() const { return rounded(most_rows * product.ldd * size_of(product.out)); }
  int64_t w_bytes() const { return own_w ? rounded(w_rows() * product.ldb * size_of(product.in)) : 0; }
  int64_t bias_bytes() const { return rounded(product.N * 4); }
  int64_t bytes() const { return x_bytes() + 2 * d_bytes() + w_bytes() + bias_bytes() + int64_t(kMostWorkspace) + 256; }
  char* x() const { return memory; }
  char* c() const { return x() + x_bytes(); }
  char* d() const { return c() + d_bytes(); }
  char* w() const { return d() + d_bytes(); }
  char* bias_memory() const { return w() + w_bytes(); }
  char* workspace() const { return bias_memory() + bias_bytes(); }
  int* different() const { return reinterpret_cast<int*>(workspace() + kMostWorkspace); }
};

// Whether `rows` rows have the bits of the order. An algorithm that does not take so many is not at fault.
bool Blas::passes(const TestRun& run, int64_t rows) const {
  BlasProduct p = run.product;
  p.M = rows;
  const std::unique_ptr<Plan> plan = describe(p);
  if (p.bias) plan->set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, run.bias);
  cublasLtMatmulHeuristicResult_t checked{};
  const cublasStatus_t able = cublasLtMatmulAlgoCheck(handle_, plan->work, plan->a, plan->b, plan->d, plan->d, &run.algorithm, &checked);
  if (able != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > kMostWorkspace) return true;
  const int64_t results = rows * p.ldd;
  fill_cancelling(run.stream, run.x(), {p.in, rows, p.K, p.lda, true, false}, uint32_t(rows));
  fill_test_values(run.stream, run.c(), p.out, results, 17);
  TestRun::require_cuda(cudaMemcpyAsync(run.d(), run.c(), size_t(results * size_of(p.out)), cudaMemcpyDeviceToDevice, run.stream),
                        "a copy");
  TestRun::require_cuda(cudaMemsetAsync(run.different(), 0, sizeof(int), run.stream), "zeroing");
  if (cublasLtMatmul(handle_, plan->work, &p.alpha, run.b, plan->a, run.x(), plan->b, &p.beta, run.d(), plan->d, run.d(), plan->d,
                     &run.algorithm, run.workspace(), kMostWorkspace, run.stream) != CUBLAS_STATUS_SUCCESS)
    return false;
  count_differences(run.stream,
                    {.in = p.in,
                     .out = p.out,
                     .transpose_b = p.transpose_b,
                     .M = int(rows),
                     .N = int(p.N),
                     .K = int(p.K),
                     .x_row = p.lda,
                     .w_row = p.ldb,
                     .d_row = p.ldd,
                     .x = run.x(),
                     .w = run.b,
                     .bias = p.bias ? run.bias : nullptr,
                     .c = run.c(),
                     .bias_dtype = p.bias_dtype,
                     .alpha = p.alpha,
                     .beta = p.beta},
                    run.d(), run.different());
  int different = 0;
  TestRun::require_cuda(cudaMemcpyAsync(&different, run.different(), sizeof different, cudaMemcpyDeviceToHost, run.stream), "a copy");
  TestRun::require_cuda(cudaStreamSynchronize(run.stream), "testing an algorithm");
  return different == 0;
}

// Tested once for what the order may depend on, with the product's own B and bias. While a graph is captured their values are whatever
// they are: they do not change the order.
bool Blas::has_order(const CudaStream& stream, const BlasProduct& p, const cublasLtMatmulAlgo_t& algorithm, const void* b,
                     const void* bias) {
  Algorithm bits;
  static_assert(sizeof bits == sizeof algorithm);
  std::memcpy(&bits, &algorithm, sizeof bits);
  const Order order{p.order_key(), bits};
  if (const auto known = orders_.find(order); known != orders_.end()) return known->second;
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream.handle(), &capturing);
  if (capturing == cudaStreamCaptureStatusNone) TestRun::require_cuda(cudaStreamSynchronize(stream.handle()), "waiting for the operands");
  const TestRun run(p, algorithm, b, bias);
  if (!run.memory) return false;  // untested: our own kernel has the order
  const bool has = std::ranges::all_of(kTestRows, [&](int64_t rows) { return rows > run.most_rows || passes(run, rows); });
  return orders_[order] = has;
}

namespace {

bool splits_k(const cublasLtMatmulAlgo_t& algorithm) {
  int splits = 0;
  uint32_t reduction = 0;
  size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits, sizeof splits, &written);
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction, sizeof reduction, &written);
  return splits > 1 || reduction != CUBLASLT_REDUCTION_SCHEME_NONE;
}

}  // namespace

Blas::Plan& Blas::plan(const CudaStream& stream, const BlasProduct& p, const void* b, const void* bias) {
  if (const std::unique_ptr<Plan>* kept = plans_.find(p.key())) return **kept;
  std::unique_ptr<Plan> made = describe(p);
  cublasLtMatmulPreference_t preference = nullptr;
  require(cublasLtMatmulPreferenceCreate(&preference), "stating preferences");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    require(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value), "stating preferences");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         uint32_t(p.ordered ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t(p.align_b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t(p.align_a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t(p.align_d));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t(p.align_d));
  int found = 0;
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> candidates;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, made->work, made->a, made->b, made->d, made->d, preference,
                                                               p.ordered ? kCandidates : 1, candidates.data(), &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS) found = 0;
  if (found == 0 && !p.ordered)
    fail(ErrorCode::unsupported, "matmul", "cuBLASLt has no algorithm for ", p.M, "x", p.N, "x", p.K, " in ", p.in, " to ", p.out, ": ",
         cublasLtGetStatusString(status));
  const auto suits = [&](const cublasLtMatmulHeuristicResult_t& candidate) {
    if (!p.ordered) return true;
    return !splits_k(candidate.algo) && (stream.planned() || has_order(stream, p, candidate.algo, b, bias));
  };
  const auto end = candidates.begin() + found, choice = std::find_if(candidates.begin(), end, suits);
  if ((made->usable = choice != end)) made->choice = *choice;
  if (plans_.size() >= kMost) plans_.keep(kMost * 3 / 4);
  return *plans_.add(p.key(), std::move(made));
}

bool Blas::multiply(Stream& stream, const BlasProduct& product, const void* a, const void* b, void* d, const void* bias) {
  const CudaStream& s = of(stream);
  cudaSetDevice(s.index());
  Plan& p = plan(s, product, b, bias);
  if (!p.usable) return false;
  if (product.bias) p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  // Back in the pool at once: its next user runs after this matmul, on the same stream.
  const std::shared_ptr<Buffer> workspace =
      p.choice.workspaceSize ? stream.device().allocate(int64_t(p.choice.workspaceSize), MemoryUse::workspace) : nullptr;
  void* space = workspace ? static_cast<char*>(workspace->handle()) + workspace->offset() : nullptr;
  if (s.planned()) return true;
  require(cublasLtMatmul(handle_, p.work, &product.alpha, b, p.a, a, p.b, &product.beta, d, p.d, d, p.d, &p.choice.algo, space,
                         p.choice.workspaceSize, s.handle()),
          "a product");
  return true;
}

}  // namespace weft::cuda
