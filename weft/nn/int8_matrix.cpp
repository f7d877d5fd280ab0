// Converts f32 matrices to int8, on the host.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "weft/base/parallel.h"
#include "weft/io/gguf_blocks.h"
#include "weft/nn/weights.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/transpose_2d/transpose_2d.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr int64_t kRows = 1024;     // rows of the matrix that are on the host at a time
constexpr int64_t kAlignment = 16;  // bytes

int64_t rounded_up(int64_t n, int64_t multiple) { return ceil_div(n, multiple) * multiple; }

bool not_a_number(float value) { return std::isnan(value); }

// Rows of f32 values as numbers and scales with the given row strides. A NaN makes the scale of its group NaN: an int8 number cannot be
// NaN, and 0 would hide it.
struct Int8Rows {
  std::vector<uint8_t> numbers;
  std::vector<f16> scales;

  Int8Rows(std::span<const float> values, int64_t K, int64_t numbers_row, int64_t scales_row) {
    const int64_t rows = int64_t(values.size()) / K, groups = ceil_div(K, kInt8Group);
    const GgufType& q8_0 = gguf_type_to_write("q8_0");
    numbers.resize(size_t(rows * numbers_row), 0);
    scales.resize(size_t(rows * scales_row), f16(0));
    parallel_for(rows, available_threads(), [&](int64_t row) {
      std::vector<float> padded(size_t(groups * kInt8Group), 0);
      const auto from = values.begin() + row * K;
      std::replace_copy_if(from, from + K, padded.begin(), not_a_number, 0.0f);
      const std::vector<std::byte> blocks = from_floats(q8_0, padded);
      for (int64_t g = 0; g < groups; ++g) {
        const std::byte* block = blocks.data() + g * q8_0.bytes;
        const int64_t first = g * kInt8Group, count = std::min(kInt8Group, K - first);
        f16& scale = scales[size_t(row * scales_row + g)];
        std::memcpy(&scale, block, sizeof scale);
        std::memcpy(&numbers[size_t(row * numbers_row + first)], block + sizeof scale, size_t(count));
        if (std::any_of(from + first, from + first + count, not_a_number)) scale = f16(NAN);
      }
    });
  }
};

}  // namespace

Int8Matrix to_int8(const Tensor& matrix) {
  const NoGrad no_grad;
  Device& device = matrix.device();
  const int64_t N = matrix.shape()[0], K = matrix.shape()[1], groups = ceil_div(K, kInt8Group);
  const int64_t numbers_row = rounded_up(K, kAlignment), scales_row = rounded_up(groups, kAlignment / 2);
  const Tensor numbers = Tensor::empty(device, {N, numbers_row}, DType::u8), scales = Tensor::empty(device, {N, scales_row}, DType::f16);
  for (int64_t first = 0; first < N; first += kRows) {
    const int64_t last = std::min(N, first + kRows);
    const MemoryScope scope(device, MemoryUse::activations);  // the cast rows are temporary
    const Int8Rows rows(cast(matrix.part(0, first, last), DType::f32).to_host<float>(), K, numbers_row, scales_row);
    numbers.part(0, first, last).write(rows.numbers);
    scales.part(0, first, last).write(rows.scales);
  }
  return {numbers.part(1, 0, K), scales.part(1, 0, groups)};
}

void Weights::use_int8() {
  check(!trainable_, "int8", "int8 weights are for inference: training needs f32 or bf16 weights");
  int8_ = true;
}

Int8Matrix Weights::take_int8(const std::string& name, const Shape& shape, const Init& init, ParameterRole role, bool transposed) {
  report_taken();
  const Tensor values = [&] {
    const MemoryScope scope(device_, MemoryUse::activations);  // temporary
    const DType dtype = std::exchange(dtype_, DType::f32);     // fetch the file's values, not rounded to the model's dtype
    const Tensor fetched = fetch(name, shape, init);
    dtype_ = dtype;
    return transposed ? transpose_2d(fetched) : fetched;
  }();
  const Int8Matrix matrix = to_int8(values);
  elements_ += shape.numel();
  taken_.push_back({name, matrix.numbers, role});
  return matrix;
}

}  // namespace weft
