// Row ops give the same bits wherever their rows are stored: 16-byte aligned rows, which have kernels of their own on a GPU, and rows that
// are an odd number of elements apart.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/unit/test_device.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/elementwise/kind.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/layer_norm/layer_norm.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/ops/rope/rope.h"

namespace weft {
namespace {

class StoredRows : public testing::TestWithParam<DType> {
 protected:
  std::shared_ptr<Device> device = open_device(test_device());

  // Rows that are `more` elements longer in memory than in use.
  Tensor rows(const Shape& shape, DType dtype, int64_t more) {
    Shape longer = shape;
    const int last = shape.rank() - 1;
    longer[last] += more;
    return full(*device, longer, 7, dtype).part(last, 0, shape[last]);
  }
  Tensor random(const Shape& shape, DType dtype, int64_t more, uint32_t seed) {
    std::vector<float> host(static_cast<size_t>(shape.numel()));
    for (float& x : host) {
      seed = seed * 1664525u + 1013904223u;
      x = std::ldexp(float(int32_t(seed)) * 0x1p-31f, 2 - int(seed >> 3 & 3));
    }
    const Tensor made = rows(shape, dtype, more);
    copy(cast(Tensor::from_host(*device, shape, host), dtype), made);
    return made;
  }
  static std::vector<uint32_t> bits(const Tensor& t) {
    const std::vector<float> host = cast(contiguous(t), DType::f32).to_host<float>();
    std::vector<uint32_t> all(host.size());
    if (!all.empty()) std::memcpy(all.data(), host.data(), all.size() * sizeof(float));
    return all;
  }
};

using Results = std::vector<std::vector<uint32_t>>;

TEST_P(StoredRows, layer_norm) {
  const DType dtype = GetParam();
  for (int64_t R : {1, 1301})  // several rows to each partial sum of dw and db
    for (int64_t C : {264, 576, 768, 1024})
      for (DType weights : {DType::f32, dtype}) {
        const auto run = [&](int64_t more, bool residual) {
          const Tensor x = random({R, C}, dtype, more, 1), add = residual ? random({R, C}, dtype, more, 2) : Tensor();
          const Tensor w = random({C}, weights, 0, 3), b = random({C}, weights, 0, 4), dy = random({R, C}, dtype, more, 5);
          const Tensor h = residual ? rows({R, C}, dtype, more) : Tensor(), y = rows({R, C}, dtype, more), dx = rows({R, C}, dtype, more);
          const Tensor mean = zeros(*device, {R}), rstd = zeros(*device, {R}), dw = zeros(*device, {C}), db = zeros(*device, {C});
          layer_norm(device->stream(), {.x = x.view(),
                                        .residual = add.view(),
                                        .w = w.view(),
                                        .b = b.view(),
                                        .h = h.mut_view(),
                                        .y = y.mut_view(),
                                        .mean = mean.mut_view(),
                                        .rstd = rstd.mut_view(),
                                        .eps = 1e-5f});
          layer_norm_backward(device->stream(), {.dy = dy.view(),
                                                 .dh = add.view(),
                                                 .h = (residual ? h : x).view(),
                                                 .w = w.view(),
                                                 .mean = mean.view(),
                                                 .rstd = rstd.view(),
                                                 .dx = dx.mut_view(),
                                                 .dw = dw.mut_view(),
                                                 .db = db.mut_view()});
          return Results{bits(residual ? h : y), bits(y), bits(mean), bits(rstd), bits(dx), bits(dw), bits(db)};
        };
        for (bool residual : {false, true}) EXPECT_EQ(run(0, residual), run(1, residual)) << R << "x" << C << " " << name(weights);
      }
}

TEST_P(StoredRows, rms_norm) {
  const DType dtype = GetParam();
  for (int64_t R : {1, 1301})
    for (int64_t C : {264, 576, 768, 1024}) {
      const auto run = [&](int64_t more, bool residual) {
        const Tensor x = random({R, C}, dtype, more, 1), add = residual ? random({R, C}, dtype, more, 2) : Tensor();
        const Tensor w = random({C}, dtype, 0, 3), dy = random({R, C}, dtype, more, 5), rstd = zeros(*device, {R}),
                     dw = zeros(*device, {C});
        const Tensor h = residual ? rows({R, C}, dtype, more) : Tensor(), y = rows({R, C}, dtype, more), dx = rows({R, C}, dtype, more);
        rms_norm(device->stream(), {.x = x.view(),
                                    .residual = add.view(),
                                    .w = w.view(),
                                    .h = h.mut_view(),
                                    .y = y.mut_view(),
                                    .rstd = rstd.mut_view(),
                                    .eps = 1e-5f});
        rms_norm_backward(device->stream(), {.dy = dy.view(),
                                             .dh = add.view(),
                                             .h = (residual ? h : x).view(),
                                             .w = w.view(),
                                             .rstd = rstd.view(),
                                             .dx = dx.mut_view(),
                                             .dw = dw.mut_view()});
        return Results{bits(y), bits(rstd), bits(dx), bits(dw)};
      };
      for (bool residual : {false, true}) EXPECT_EQ(run(0, residual), run(1, residual)) << R << "x" << C;
    }
}

// Rows of f32 logits that fit into the memory of a multiprocessor, and longer ones; with padding, and more rows than multiprocessors.
TEST_P(StoredRows, cross_entropy) {
  for (auto [R, V] : {std::pair<int64_t, int64_t>{301, 28673}, {5, 50257}, {3, 57345}, {3, 151936}}) {
    const auto run = [&](int64_t more, bool in_place) {
      const Tensor logits = random({R, V}, DType::f32, more, 1);
      const Tensor d = in_place ? logits : rows({R, V}, GetParam(), more), loss = zeros(*device, {}), losses = zeros(*device, {R});
      std::vector<int32_t> ids(static_cast<size_t>(R));
      for (size_t r = 0; r < ids.size(); ++r) ids[r] = r % 3 == 1 ? 9 : int32_t((r * 7919) % size_t(V));
      const Tensor targets = Tensor::from_host(*device, {R}, ids);
      cross_entropy(device->stream(), {.logits = logits.view(),
                                       .targets = targets.view(),
                                       .dlogits = d.mut_view(),
                                       .loss = loss.mut_view(),
                                       .losses = losses.mut_view(),
                                       .pad_id = 9});
      return Results{bits(d), bits(loss), bits(losses)};
    };
    const int64_t aligned = (8 - V % 8) % 8, odd = aligned + 1;
    for (bool in_place : {false, true}) {
      const Results first = run(aligned, in_place), other = run(odd, in_place);
      for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i] == other[i]) << R << "x" << V << ", result " << i;
    }
  }
}

TEST_P(StoredRows, rope) {
  for (auto [B, T, H, D] : {std::array<int64_t, 4>{2, 5, 9, 64}, {1, 3, 32, 128}, {3, 700, 5, 96}, {64, 64, 16, 64}}) {
    const RopeTable table = rope_table(*device, T, D, 10000);
    const auto run = [&](int64_t more, bool inverse) {
      const Tensor x = random({B, T, H, D}, GetParam(), more, 1), y = rows({B, T, H, D}, GetParam(), more);
      RopeArgs args{.x = x.view(), .cos = table.cos.view(), .sin = table.sin.view(), .start = {}, .y = y.mut_view()};
      args.inverse = inverse;
      rope(device->stream(), args);
      return bits(y);
    };
    for (bool inverse : {false, true}) EXPECT_TRUE(run(0, inverse) == run(1, inverse)) << B << "x" << T << "x" << H << "x" << D;
  }
}

// Sums over rows: fewer rows than are copied ahead, as many, and chunks of them with a last one that is shorter or empty.
TEST_P(StoredRows, reduce) {
  for (auto [outer, n, inner] : {std::array<int64_t, 3>{1, 33, 8}, {2, 517, 264}, {1, 4097, 72}, {1, 9001, 768}, {3, 1030, 8}})
    for (Reduction kind : {Reduction::sum, Reduction::sum_squares, Reduction::max}) {
      const auto run = [&](int64_t more) {
        const Tensor x = random({outer, n, inner}, GetParam(), more, 1), y = zeros(*device, {outer, inner});
        reduce(device->stream(), {.x = x.view(), .y = y.mut_view(), .axis = 1, .kind = kind});
        return bits(y);
      };
      EXPECT_TRUE(run(0) == run(1)) << outer << "x" << n << "x" << inner << ", kind " << int(kind);
    }
}

// Values before the activation from 0 and far below 1 to those past which e^x leaves the numbers.
TEST_P(StoredRows, matmul_with_activation) {
  constexpr int64_t M = 131, N = 72, K = 64;
  for (Activation activation : {Activation::relu, Activation::silu, Activation::gelu_tanh})
    for (float alpha : {0.0f, 0x1p-24f, 0.25f, 8.0f})
      for (DType bias_dtype : {DType::f32, GetParam()}) {
        const auto run = [&](int64_t more, float beta) {
          const Tensor a = random({M, K}, GetParam(), 0, 1), b = random({N, K}, GetParam(), 0, 2), bias = random({N}, bias_dtype, 0, 3);
          const Tensor c = random({M, N}, GetParam(), more, 4), pre = rows({M, N}, GetParam(), more);
          const bool biased = alpha > 0x1p-20f;
          matmul(device->stream(), {.a = a.view(),
                                    .b = b.view(),
                                    .c = c.mut_view(),
                                    .bias = biased ? bias.view() : View(),
                                    .pre = pre.mut_view(),
                                    .transpose_b = true,
                                    .alpha = alpha,
                                    .beta = beta,
                                    .activation = activation});
          return Results{bits(c), bits(pre)};
        };
        for (float beta : {0.0f, 0.5f}) EXPECT_TRUE(run(0, beta) == run(1, beta)) << name(activation) << " " << alpha << " " << beta;
      }
}

// Every exponent and sign, so that some vectors are all normal numbers and others have a zero, a subnormal or an infinity.
TEST_P(StoredRows, reciprocal_and_derivatives) {
  constexpr int64_t R = 512, C = 40;
  std::vector<float> host(static_cast<size_t>(R * C));
  uint32_t seed = 7;
  for (size_t i = 0; i < host.size(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    const uint32_t exponent = uint32_t(i) / (2 * C) % 256, word = (seed & 0x807fffffu) | exponent << 23;
    std::memcpy(&host[i], &word, sizeof word);
    if (exponent == 255) host[i] = i % 3 ? -INFINITY : INFINITY;
    if (i % 997 == 0) host[i] = 0;
  }
  static const auto reciprocal = fuse([](Expr x) { return 1.0f / x; });
  const auto run = [&](int64_t more) {
    const Tensor x = rows({R, C}, GetParam(), more), dy = random({R, C}, GetParam(), more, 5);
    copy(cast(Tensor::from_host(*device, {R, C}, host), GetParam()), x);
    Results all = {bits(reciprocal(x))};
    for (Activation kind : {Activation::silu, Activation::gelu_tanh}) all.push_back(bits(activation_backward(x, dy, kind)));
    for (auto& values : all)
      for (uint32_t& word : values)
        if ((word & 0x7fffffffu) > 0x7f800000u) word = 0x7fc00000u;  // the bits of a NaN are free
    return all;
  };
  const Results first = run(0), other = run(1);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i] == other[i]) << "result " << i;
}

INSTANTIATE_TEST_SUITE_P(Dtypes, StoredRows, testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace weft
