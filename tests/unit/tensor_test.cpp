#include "weft/tensor/tensor.h"

#include <gtest/gtest.h>

#include <thread>

#include "weft/weft.h"

namespace weft {
namespace {

std::vector<float> counting(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  return values;
}

class TensorTest : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device("cpu", {.checked = true});
};

TEST_F(TensorTest, host_values_round_trip) {
  const Tensor t = Tensor::from_host(*device, {2, 3}, counting(6));
  EXPECT_EQ(t.shape(), Shape({2, 3}));
  EXPECT_EQ(t.to_host<float>(), counting(6));
  EXPECT_EQ(Tensor::from_host<float>(*device, {}, std::vector<float>{7}).item<float>(), 7);
}

TEST_F(TensorTest, rejects_wrong_sizes_and_dtypes) {
  EXPECT_THROW(Tensor::from_host(*device, {2, 4}, counting(6)), Error);
  const Tensor t = Tensor::from_host(*device, {2, 3}, counting(6));
  EXPECT_THROW(t.to_host<int32_t>(), Error);
  EXPECT_THROW(t.item<float>(), Error);
  EXPECT_THROW(t.permute({1, 0}).to_host<float>(), Error);
  EXPECT_THROW(Tensor().device(), Error);
  EXPECT_THROW(Tensor().to_host<float>(), Error);
}

TEST_F(TensorTest, views_share_memory) {
  const Tensor t = Tensor::from_host(*device, {2, 3, 4}, counting(24));
  EXPECT_EQ(t.reshape({6, 4}).strides(), Strides({4, 1}));
  const Tensor p = t.permute({2, 0, 1});
  EXPECT_EQ(p.shape(), Shape({4, 2, 3}));
  EXPECT_EQ(p.strides(), Strides({1, 12, 4}));
  const Tensor row = t.part(0, 1, 2).part(1, 2, 3);
  EXPECT_EQ(row.shape(), Shape({1, 1, 4}));
  EXPECT_EQ(row.to_host<float>(), std::vector<float>({20, 21, 22, 23}));
  EXPECT_FALSE(t.part(-1, 0, 2).contiguous());
}

TEST_F(TensorTest, rejects_views_out_of_range) {
  const Tensor t = Tensor::from_host(*device, {2, 3}, counting(6));
  EXPECT_THROW(t.reshape({7}), Error);
  EXPECT_THROW(t.permute({0, 0}), Error);
  EXPECT_THROW(t.permute({0}), Error);
  EXPECT_THROW(t.part(2, 0, 1), Error);
  EXPECT_THROW(t.part(0, 1, 3), Error);
  EXPECT_THROW(t.part(0, 2, 1), Error);
  EXPECT_THROW(t.permute({1, 0}).reshape({6}), Error);
}

TEST_F(TensorTest, rows_collapse_only_when_equally_spaced) {
  const Tensor t = Tensor::from_host(*device, {2, 3, 4}, counting(24));
  const Rows rows = as_rows(t.part(2, 0, 3).view(), "test", "x");
  EXPECT_EQ(rows.rows, 6);
  EXPECT_EQ(rows.columns, 3);
  EXPECT_EQ(rows.stride, 4);
  EXPECT_THROW(as_rows(t.part(1, 0, 2).view(), "test", "x"), Error);
  EXPECT_THROW(as_rows(t.permute({0, 2, 1}).view(), "test", "x"), Error);
}

TEST_F(TensorTest, rejects_operands_of_two_devices) {
  const auto other = open_device("cpu");
  EXPECT_THROW(rms_norm(Tensor::empty(*device, {2, 4}), Tensor::empty(*other, {4}), 1e-5f), Error);
}

TEST_F(TensorTest, tensor_keeps_its_device_alive) {
  auto owner = open_device("cpu");
  const Tensor t = Tensor::from_host(*owner, {4}, counting(4));
  owner.reset();
  EXPECT_EQ(t.to_host<float>(), counting(4));
}

// Offsets are 64-bit throughout: the last rows of a tensor with more than 2^31 elements (4.3 GB of address space, of which only these rows
// are touched).
TEST(huge_offsets, rows_past_two_billion_elements) {
  const auto plain = open_device("cpu");
  if (plain->pool().checked()) GTEST_SKIP() << "a checked pool would fill all of it";
  const int64_t rows = (int64_t(1) << 31) / 64 + 2;
  const Tensor all = Tensor::empty(*plain, {rows, 64}, DType::bf16), last = all.part(0, rows - 2, rows);
  EXPECT_GE(last.view().offset, int64_t(1) << 32);
  copy(cast(Tensor::from_host(*plain, {2, 64}, counting(128)), DType::bf16), last);
  const Tensor w = full(*plain, {64}, 1.0, DType::bf16);
  const auto far = cast(rms_norm(last, w, 0.0f), DType::f32).to_host<float>();
  const auto near =
      cast(rms_norm(cast(Tensor::from_host(*plain, {2, 64}, counting(128)), DType::bf16), w, 0.0f), DType::f32).to_host<float>();
  EXPECT_EQ(far, near);
}

// One device has one user at a time; two devices in two threads are independent.
TEST_F(TensorTest, two_devices_in_two_threads) {
  std::vector<float> results[2];
  std::thread workers[2];
  for (int i = 0; i < 2; ++i)
    workers[i] = std::thread([&result = results[i]] {
      const auto mine = open_device("cpu", {.threads = 2});
      const Tensor w = Tensor::from_host(*mine, {384}, std::vector<float>(384, 1.0f));
      Tensor x = Tensor::from_host(*mine, {512, 384}, counting(512 * 384));
      for (int step = 0; step < 20; ++step) x = rms_norm(x, w, 1e-5f);
      result = x.to_host<float>();
    });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace weft
