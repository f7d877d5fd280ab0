#include "weft/tile/cuda/blas.h"

namespace weft::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t(32) << 20;  // cuBLAS recommends as much for Hopper

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

Blas::Plan& Blas::plan(const BlasProduct& p) {
  if (const std::unique_ptr<Plan>* kept = plans_.find(p.key())) return **kept;
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

  cublasLtMatmulPreference_t preference = nullptr;
  require(cublasLtMatmulPreferenceCreate(&preference), "stating preferences");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    require(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value), "stating preferences");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t(p.align_b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t(p.align_a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t(p.align_d));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t(p.align_d));
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, made->work, made->a, made->b, made->d, made->d, preference, 1, &made->choice, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0)
    fail(ErrorCode::unsupported, "matmul", "cuBLASLt has no algorithm for ", p.M, "x", p.N, "x", p.K, " in ", p.in, " to ", p.out, ": ",
         cublasLtGetStatusString(status));
  if (plans_.size() >= kMost) plans_.keep(kMost * 3 / 4);
  return *plans_.add(p.key(), std::move(made));
}

void Blas::multiply(Stream& stream, const BlasProduct& product, const void* a, const void* b, void* d, const void* bias, float alpha,
                    float beta) {
  const CudaStream& s = of(stream);
  cudaSetDevice(s.index());
  Plan& p = plan(product);
  if (product.bias) p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  // Back in the pool at once: its next user runs after this matmul, on the same stream.
  const std::shared_ptr<Buffer> workspace =
      p.choice.workspaceSize ? stream.device().allocate(int64_t(p.choice.workspaceSize), MemoryUse::workspace) : nullptr;
  void* space = workspace ? static_cast<char*>(workspace->handle()) + workspace->offset() : nullptr;
  if (s.planned()) return;
  require(cublasLtMatmul(handle_, p.work, &alpha, b, p.a, a, p.b, &beta, d, p.d, d, p.d, &p.choice.algo, space, p.choice.workspaceSize,
                         s.handle()),
          "a product");
}

}  // namespace weft::cuda
