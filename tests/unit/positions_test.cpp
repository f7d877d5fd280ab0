// Positions: correct for every shape, and little memory for many shapes.
#include "weft/nn/positions.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/test_device.h"
#include "weft/ops/embedding/embedding.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

class PositionsTest : public testing::Test {
 protected:
  static std::vector<int32_t> expected(int64_t B, int64_t T) {
    std::vector<int32_t> all(size_t(B * T));
    for (int64_t i = 0; i < B * T; ++i) all[size_t(i)] = int32_t(i % T);
    return all;
  }

  const std::shared_ptr<Device> device = open_device(test_device());
  Positions positions{*device};
};

TEST_F(PositionsTest, every_row_starts_at_zero) {
  for (const auto& [B, T] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 5}, {2, 64}, {2, 65}, {1, 1000}, {4, 7}}) {
    const Tensor ids = positions.ids(B, T);
    EXPECT_EQ(ids.shape(), (Shape{B, T}));
    EXPECT_EQ(ids.to_host<int32_t>(), expected(B, T)) << B << "x" << T;
    std::vector<float> values(static_cast<size_t>(T));
    std::iota(values.begin(), values.end(), 0.0f);
    EXPECT_EQ(positions.values(T).to_host<float>(), values) << T;
  }
}

TEST_F(PositionsTest, many_shapes_share_the_memory_of_the_longest) {
  positions.ids(1, 300), positions.values(300);
  const int64_t before = device->pool().stats().in_use;
  for (int64_t T = 1; T <= 300; ++T)
    for (int64_t B = 1; B <= 5; ++B) positions.ids(B, T), positions.values(T);
  EXPECT_EQ(device->pool().stats().in_use, before);
}

// A graph reads the positions of its capture, whatever was requested since.
TEST_F(PositionsTest, captured_graph_keeps_its_positions) {
  Stream& stream = device->stream();
  if (!stream.captures()) GTEST_SKIP() << test_device() << " does not capture";
  const NoGrad no_grad;
  std::vector<float> rows(64);
  std::iota(rows.begin(), rows.end(), 0.0f);
  const Tensor table = Tensor::from_host(*device, {64, 1}, rows);
  Tensor single, several;
  const auto work = [&] {
    single = embedding(table, positions.ids(1, 9));
    several = embedding(table, positions.ids(3, 9));
  };
  work();
  const auto graph = stream.capture(work);
  std::vector<Tensor> others;
  for (int64_t T = 1; T <= 2000; T += 7) others.push_back(positions.ids(2, T)), others.push_back(full(*device, {T}, -1));
  graph->replay();
  EXPECT_EQ(single.to_host<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(several.to_host<float>(),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace weft
