// Matmuls of any shape, layout and number of rows have the bits of the CPU's one order. tests/cpu_order.cmake runs this for every kind of
// bf16 and for AVX2.
#include <gtest/gtest.h>

#include "tests/unit/cpu_order.h"
#include "weft/backends/open.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/matmul_group/matmul_group.h"

namespace weft::cpu_order {
namespace {

// A matrix in memory with rows of `row` elements, and its values on the host.
struct Matrix {
  int64_t rows, columns, row;
  std::vector<float> values;
  Tensor tensor;

  Matrix(Device& device, Values& values, int64_t rows, int64_t columns, int64_t padding, DType dtype, float scale)
      : rows(rows), columns(columns), row(columns + padding), values(values.normal(rows * row, dtype, scale)) {
    tensor = cast(Tensor::from_host(device, {rows, row}, this->values), dtype).part(1, 0, columns);
  }
  float operator()(int64_t r, int64_t c) const { return values[size_t(r * row + c)]; }
};

struct Shapes {
  int64_t M, N, K, padding;
  bool transpose_a, transpose_b;
  float alpha, beta, scale;
  DType dtype;
};

std::ostream& operator<<(std::ostream& out, const Shapes& s) {
  return out << s.dtype << ' ' << s.M << 'x' << s.N << 'x' << s.K << " padding " << s.padding << (s.transpose_a ? " T" : " N")
             << (s.transpose_b ? "T" : "N") << " alpha " << s.alpha << " beta " << s.beta << " scale " << s.scale;
}

float expected(const Shapes& s, const Matrix& a, const Matrix& b, float c, int64_t i, int64_t j) {
  const bool starts_at_c = s.alpha == 1 && s.beta != 0;
  const float sum = dot(
      kind_of(s.dtype), starts_at_c ? s.beta * c : 0.0f, s.K, [&](int64_t k) { return s.transpose_a ? a(k, i) : a(i, k); },
      [&](int64_t k) { return s.transpose_b ? b(j, k) : b(k, j); });
  if (starts_at_c || s.beta == 0) return s.alpha == 1 ? sum : s.alpha * sum;
  return std::fma(s.alpha, sum, s.beta * c);
}

void check(Device& device, Values& values, const Shapes& s) {
  const Matrix a(device, values, s.transpose_a ? s.K : s.M, s.transpose_a ? s.M : s.K, s.padding, s.dtype, s.scale);
  const Matrix b(device, values, s.transpose_b ? s.N : s.K, s.transpose_b ? s.K : s.N, s.padding, s.dtype, s.scale);
  const Matrix before(device, values, s.M, s.N, s.padding, DType::f32, s.scale * s.scale);
  const Tensor c = before.tensor;
  matmul(device.stream(), {.a = a.tensor.view(),
                           .b = b.tensor.view(),
                           .c = c.mut_view(),
                           .bias = {},
                           .pre = {},
                           .transpose_a = s.transpose_a,
                           .transpose_b = s.transpose_b,
                           .alpha = s.alpha,
                           .beta = s.beta});
  const std::vector<float> got = contiguous(c).to_host<float>();
  for (int64_t i = 0; i < s.M; ++i)
    for (int64_t j = 0; j < s.N; ++j)
      ASSERT_EQ(std::bit_cast<uint32_t>(got[size_t(i * s.N + j)]), std::bit_cast<uint32_t>(expected(s, a, b, before(i, j), i, j)))
          << s << " at " << i << ", " << j;
}

TEST(CpuOrder, matmuls_of_any_shape) {
  const auto device = open_device("cpu");
  Values values(11);
  for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
    const int64_t M = i % 2 ? values.from(1, 4) : values.one_of({int64_t(5), int64_t(6), int64_t(17), int64_t(33), int64_t(64)});
    const float beta = values.one_of({0.0f, 0.0f, 1.0f, 0.5f});
    check(*device, values,
          {M, values.from(1, 100), values.from(0, 9) == 0 ? values.from(700, 900) : values.from(1, 150), values.one_of({0, 0, 3, 16}),
           values.from(0, 3) == 0, values.from(0, 2) > 0, values.one_of({1.0f, 1.0f, 0.25f}), beta,
           values.one_of({1.0f, 1.0f, 0x1p-64f, 0x1p-128f}), i % 4 < 2 ? DType::f32 : DType::bf16});
  }
}

// Lines a page apart, a whole number of cache lines, more columns than a run.
TEST(CpuOrder, one_row_of_large_weights) {
  const auto device = open_device("cpu");
  Values values(12);
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t rows : {1, 3})
      for (bool transpose_b : {true, false})
        check(*device, values, {rows, 4160, dtype == DType::f32 ? 1024 : 2048, 0, false, transpose_b, 1, 0, 1, dtype});
}

TEST(CpuOrder, groups_have_the_bits_of_their_members) {
  const auto device = open_device("cpu");
  Values values(13);
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t rows : {1, 2, 4, 9}) {
      const Matrix x(*device, values, rows, 96, 0, dtype, 1);
      std::vector<RightOperand> right;
      for (int64_t N : {40, 64, 7}) right.push_back({Matrix(*device, values, N, 96, 0, dtype, 1).tensor, Tensor(), true});
      const std::vector<Tensor> got = matmul_group(x.tensor, right);
      for (size_t i = 0; i < right.size(); ++i) {
        const Tensor alone = matmul(x.tensor, right[i].b, {.transpose_b = true});
        ASSERT_EQ(cast(got[i], DType::f32).to_host<float>(), cast(alone, DType::f32).to_host<float>()) << dtype << ' ' << rows << ' ' << i;
      }
    }
}

}  // namespace
}  // namespace weft::cpu_order
