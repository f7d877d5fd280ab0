// Row ops give the same bits wherever their rows are stored: 16-byte aligned rows, which have kernels of their own on a GPU, and rows that
// are an odd number of elements apart.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/unit/test_device.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/layer_norm/layer_norm.h"
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

INSTANTIATE_TEST_SUITE_P(Dtypes, StoredRows, testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace weft
