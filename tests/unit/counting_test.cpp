#include "weft/backends/counting/counting_device.h"

#include <gtest/gtest.h>

#include "weft/autograd/backward.h"
#include "weft/backends/open.h"
#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/matmul/matmul.h"

namespace weft {
namespace {

constexpr int64_t kRows = 96, kIn = 70, kHidden = 130, kOut = 50;

// Two layers, a loss and the gradients.
void step(Device& device) {
  const auto weight = [&](Shape shape) {
    const MemoryScope scope(device, MemoryUse::weights);
    return full(device, shape, 0.01).set_requires_grad();
  };
  static const auto square = fuse([](Expr x) { return x * x; });
  const Tensor a = weight({kIn, kHidden}), b = weight({kHidden, kOut}), x = full(device, {kRows, kIn}, 1),
               targets = zeros(device, {kRows}, DType::i32);
  backward(cross_entropy(matmul(square(matmul(x, a)), b), targets));
}

TEST(counting_device, counts_the_operations_of_a_step) {
  const auto device = counting::open_device(2);
  step(*device);
  // Forward, and backward with respect to both factors, but not to x.
  const double expected = 2.0 * kRows * (2 * kIn * kHidden + 3 * kHidden * kOut);
  EXPECT_DOUBLE_EQ(counting::counts(*device).kernels().at("matmul").cost.flops, expected);
  EXPECT_EQ(counting::counts(*device).kernels().at("matmul").launches, 5);
  EXPECT_EQ(counting::counts(*device).kernels().at("cross_entropy").launches, 1);
  EXPECT_GT(counting::counts(*device).total().flops, expected);
  counting::counts(*device).reset();
  EXPECT_EQ(counting::counts(*device).total().flops, 0);
}

TEST(counting_device, allocations_by_use_equal_the_real_devices) {
  const auto real = open_device("cpu", {.threads = 2});
  const auto counted = counting::open_device(2);
  step(*real);
  step(*counted);
  const PoolStats a = real->pool().stats(), b = counted->pool().stats();
  for (MemoryUse use : {MemoryUse::weights, MemoryUse::gradients, MemoryUse::optimizer, MemoryUse::activations, MemoryUse::workspace}) {
    EXPECT_EQ(a.of(use).high_water, b.of(use).high_water) << name(use);
    EXPECT_EQ(a.of(use).in_use, b.of(use).in_use) << name(use);
  }
  EXPECT_EQ(a.high_water, b.high_water);
  if (!real->pool().checked()) {  // guards are held too
    EXPECT_EQ(a.held_high_water, b.held_high_water);
  }
  EXPECT_GT(b.of(MemoryUse::workspace).high_water, 0);
}

TEST(counting_device, needs_no_memory) {
  const auto device = counting::open_device(1);
  const Tensor huge = zeros(*device, {int64_t(1) << 19, int64_t(1) << 20});
  EXPECT_EQ(device->pool().stats().in_use, int64_t(2) << 40);
  EXPECT_EQ(zeros(*device, {}).item<float>(), 0.0f);
}

}  // namespace
}  // namespace weft
