// A row of a matmul has one set of bits, whatever the number of rows, their place and how they are stored (docs/numerics.md).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/unit/test_device.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/matmul_group/matmul_group.h"

namespace weft {
namespace {

struct Case {
  DType in, out;
  int64_t N, K;
  bool transpose_b = true, bias = false;
  Activation activation = Activation::none;
};

// Values of several magnitudes and either sign.
std::vector<float> random_values(int64_t count, uint32_t seed) {
  std::vector<float> host(static_cast<size_t>(count));
  for (float& x : host) {
    seed = seed * 1664525u + 1013904223u;
    x = std::ldexp(float(int32_t(seed)) * 0x1p-31f, -int(seed >> 3 & 3));
  }
  return host;
}
Tensor values(Device& device, const Shape& shape, DType dtype, uint32_t seed, float scale = 1) {
  std::vector<float> host = random_values(shape.numel(), seed);
  for (float& x : host) x *= scale;
  return cast(Tensor::from_host(device, shape, host), dtype);
}
// The second half of K repeats the first, with the other sign if `negated`: the exact product of such operands is 0, and another order
// of sums shows even where the result is rounded to bf16.
Tensor cancelling(Device& device, int64_t rows, int64_t K, bool k_first, bool negated, DType dtype, uint32_t seed) {
  const std::vector<float> some = random_values(rows * K, seed);
  std::vector<float> host(some.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < K; ++k) {
      const int64_t half = K / 2, from = k < half ? k : k - half;
      const float x = k < 2 * half ? some[size_t(i * K + from)] : 0;
      host[size_t(k_first ? k * rows + i : i * K + k)] = negated && k >= half ? -x : x;
    }
  return cast(Tensor::from_host(device, k_first ? Shape{K, rows} : Shape{rows, K}, host), dtype);
}

std::vector<char> bytes_of(const Tensor& t) {
  const std::vector<float> host = cast(t, DType::f32).to_host<float>();
  std::vector<char> bytes(host.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), host.data(), bytes.size());
  return bytes;
}

class RowBits : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device(test_device());

  // The rows of one product of kMost rows against products of fewer of them, from the first and from another row on.
  void compare(const Case& c) {
    constexpr int64_t kMost = 1100;
    const Tensor x = cancelling(*device, kMost, c.K, false, false, c.in, 1),
                 w = cancelling(*device, c.N, c.K, !c.transpose_b, true, c.in, 2);
    const MatmulOptions options{.transpose_b = c.transpose_b,
                                .bias = c.bias ? values(*device, {c.N}, DType::f32, 3, 0x1p-17f) : Tensor(),
                                .activation = c.activation,
                                .out_dtype = c.out};
    const std::vector<char> all = bytes_of(matmul(x, w, options));
    const int64_t row = c.N * int64_t(sizeof(float));
    for (int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64, 65, 129, 1000})
      for (int64_t first : {int64_t(0), kMost - rows}) {
        const Tensor part = x.part(0, first, first + rows);
        const std::vector<char> some = bytes_of(matmul(part, w, options));
        int64_t different = 0;
        for (int64_t i = 0; i < int64_t(some.size()); i += 4)
          different += std::memcmp(&some[size_t(i)], &all[size_t(first * row + i)], 4) != 0;
        EXPECT_EQ(different, 0) << c.in << " to " << c.out << ", " << rows << " rows from " << first << " of " << c.N << "x" << c.K
                                << (c.transpose_b ? "" : ", W stored [K, N]") << (c.bias ? ", bias" : "");
      }
  }
};

TEST_F(RowBits, any_number_of_rows) {
  for (DType in : {DType::f32, DType::bf16})
    for (bool transpose_b : {true, false}) {
      compare({in, DType::f32, 192, 576, transpose_b});
      compare({in, in, 576, 200, transpose_b, true});
      compare({in, in, 96, 1536, transpose_b, true, Activation::gelu_tanh});
      compare({in, in, 33, 65, transpose_b});  // rows that no vector load takes
      compare({in, in, 40, 7, transpose_b, true});
    }
}

TEST_F(RowBits, a_large_vocabulary_and_a_long_sum) {
  for (DType in : {DType::f32, DType::bf16}) {
    compare({in, DType::f32, 2500, 64});
    compare({in, in, 128, 4104});
  }
}

TEST_F(RowBits, members_of_a_group) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t rows : {1, 3, 8, 40, 100}) {
      const Tensor x = values(*device, {rows, 320}, dtype, 1);
      std::vector<RightOperand> right;
      for (int64_t N : {320, 64, 70})
        right.push_back({values(*device, {N, 320}, dtype, uint32_t(N)), values(*device, {N}, DType::f32, 5), true});
      const std::vector<Tensor> together = matmul_group(x, right);
      for (size_t i = 0; i < right.size(); ++i)
        EXPECT_EQ(bytes_of(together[i]), bytes_of(matmul(x, right[i].b, {.transpose_b = true, .bias = right[i].bias})))
            << dtype << ", " << rows << " rows, member " << i;
    }
}

}  // namespace
}  // namespace weft
