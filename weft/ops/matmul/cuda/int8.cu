#include "weft/ops/matmul/cuda/int8.h"

#include "weft/ops/matmul/cuda/int8.cuh"
#include "weft/tile/cuda/launch.h"

namespace weft::cuda {

void matmul(Stream& stream, const MatmulArgs& args);

namespace {

// Equation: to[n, k] = b[n, k] scales[n, k / kInt8Group], rounded to T.
// Layout:   b [N, K] and scales with row strides; to [N, K].
// Order:    elementwise, one element per thread.
// Requires: nothing.
// Traffic:  one read of b and of the scales, one write of `to`.
template <class T>
__global__ void widen(const int8_t* b, int64_t b_row, const __half* scales, int64_t scales_row, T* to, int64_t K, int64_t count) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t n = i / K, k = i - n * K;
    to[i] = from_float<T>(float(b[n * b_row + k]) * __half2float(scales[n * scales_row + k / kInt8Group]));
  }
}

// Widens all weights to a's dtype in workspace and multiplies by them.
template <class T>
void multiply_widened(Stream& stream, const Launch& launch, const MatmulArgs& a) {
  const int64_t N = a.b.shape[0], K = a.b.shape[1];
  const auto memory = stream.device().allocate(N * K * size_of(a.a.dtype), MemoryUse::workspace);
  MatmulArgs widened = a;
  widened.scales = {};
  widened.b = View{memory.get(), 0, a.a.dtype, {N, K}, {K, 1}};
  launch(blocks_for(stream, N * K, 256), 256, 0, widen<T>, reinterpret_cast<const int8_t*>(data<uint8_t>(a.b)), a.b.strides[0],
         data<__half>(a.scales), a.scales.strides[0], const_cast<T*>(data<T>(widened.b)), K, N * K);
  cuda::matmul(stream, widened);
}

bool aligned_rows(const View& view, int64_t row) { return aligned16(data<char>(view)) && row * size_of(view.dtype) % 16 == 0; }

template <class Out>
void multiply_few(Stream& stream, const Launch& launch, const MatmulArgs& a, const MatmulPlan& p) {
  const Int8Params<Out> params{data<__nv_bfloat16>(a.a),
                               p.a.row,
                               reinterpret_cast<const int8_t*>(data<uint8_t>(a.b)),
                               a.b.strides[0],
                               data<__half>(a.scales),
                               a.scales.strides[0],
                               data<char>(a.bias),
                               data<Out>(a.c),
                               p.c.row,
                               int(p.M),
                               int(p.N),
                               int(p.K),
                               a.bias && a.bias.dtype == DType::f32,
                               {1, 0, a.activation}};
  const auto run = [&]<class Ring>() {
    launch(dim3(unsigned((p.N + Ring::kRows - 1) / Ring::kRows), unsigned((p.M + Ring::kCols - 1) / Ring::kCols)), kInt8Threads,
           Ring::kBytes, multiply_int8_few<Out, Ring>, params);
  };
  const bool many = p.N >= int64_t(multiprocessors(stream)) * 48;  // enough rows of W to give every multiprocessor a block of 64
  if (p.M <= 8) return many ? run.template operator()<Int8Ring<64, 8, 256>>() : run.template operator()<Int8Ring<16, 8, 512>>();
  if (p.M <= 16) return many ? run.template operator()<Int8Ring<64, 16, 128>>() : run.template operator()<Int8Ring<16, 16, 256>>();
  if (p.M <= 32) return run.template operator()<Int8Ring<64, 32, 128>>();
  run.template operator()<Int8Ring<64, 64, 128>>();
}

}  // namespace

void multiply_int8(Stream& stream, const MatmulArgs& a) {
  constexpr int64_t kFewRows = 64;
  const Launch launch(stream, a.kOp, {&a.a, &a.b, &a.c});
  const MatmulPlan p = plan(a);
  if (p.batch() * p.M * p.N == 0) return;
  if (a.a.dtype == DType::f32) return multiply_widened<float>(stream, launch, a);
  const bool aligned = p.K > 0 && p.K % 8 == 0 && aligned_rows(a.a, p.a.row) && aligned_rows(a.b, a.b.strides[0]) &&
                       aligned_rows(a.scales, a.scales.strides[0]);
  if (!aligned || p.M > kFewRows || p.batch() > 1) return multiply_widened<__nv_bfloat16>(stream, launch, a);
  a.c.dtype == DType::f32 ? multiply_few<float>(stream, launch, a, p) : multiply_few<__nv_bfloat16>(stream, launch, a, p);
}

}  // namespace weft::cuda
