// The norm of gradients that are shared out: the squares of ranges, put together in order, give the bits of the whole. On the CPU, or
// on the device named by WEFT_TEST_DEVICE.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tests/unit/test_device.h"
#include "weft/base/philox.h"
#include "weft/device/replayed.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr int64_t kCut = 65536;  // ranges begin at multiples of it

uint32_t bits(const Tensor& scalar) { return std::bit_cast<uint32_t>(scalar.item<float>()); }

class GradientNormOfRanges : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device(test_device());
  const NoGrad no_grad;
  PhiloxStream random{5};

  Tensor gradient(const Shape& shape, DType dtype) {
    std::vector<float> values(size_t(shape.numel()));
    for (float& value : values) value = float(random.normal());
    return cast(Tensor::from_host(*device, shape, values), dtype);
  }
  std::vector<Tensor> gradients() {
    return {gradient({3, 50001}, DType::f32),  gradient({17}, DType::f32),      gradient({0}, DType::f32),
            gradient({2 * kCut}, DType::bf16), gradient({200003}, DType::bf16), gradient({kCut + 1}, DType::f32)};
  }
  // The pieces of the elements from `first` on, `count` of them, of one tensor.
  std::vector<float> squares_of(const Tensor& grad, int64_t first, int64_t count) {
    const Tensor range = grad.reshape({grad.numel()}).part(0, first, first + count);
    return gradient_squares(*device, std::vector<Tensor>{range}).to_host<float>();
  }
};

TEST_F(GradientNormOfRanges, ranges_have_the_bits_of_the_whole) {
  const std::vector<Tensor> grads = gradients();
  for (float max_norm : {0.0f, 1.5f}) {
    const GradientNorm whole = gradient_norm(*device, grads, max_norm);
    ASSERT_GT(whole.norm.item<float>(), 100);
    for (int64_t length : {kCut, 2 * kCut}) {  // of a range
      std::vector<float> squares;
      for (const Tensor& grad : grads)
        for (int64_t first = 0; first < grad.numel(); first += length) {
          const std::vector<float> pieces = squares_of(grad, first, std::min(length, grad.numel() - first));
          squares.insert(squares.end(), pieces.begin(), pieces.end());
        }
      const GradientNorm together = clip_of_squares(Tensor::from_host(*device, {int64_t(squares.size())}, squares), max_norm);
      EXPECT_EQ(bits(together.norm), bits(whole.norm)) << "ranges of " << length << ", max_norm " << max_norm;
      EXPECT_EQ(bits(together.clip), bits(whole.clip)) << "ranges of " << length << ", max_norm " << max_norm;
    }
  }
}

TEST_F(GradientNormOfRanges, pieces_of_all_tensors_are_those_of_each) {
  const std::vector<Tensor> grads = gradients();
  std::vector<float> each;
  for (const Tensor& grad : grads) {
    const std::vector<float> pieces = squares_of(grad, 0, grad.numel());
    EXPECT_EQ(int64_t(pieces.size()), norm_pieces(grad.numel()));
    each.insert(each.end(), pieces.begin(), pieces.end());
  }
  EXPECT_EQ(gradient_squares(*device, grads).to_host<float>(), each);
}

// The workspace between the two halves belongs to the captured graph.
TEST_F(GradientNormOfRanges, replay_reads_the_gradients_of_its_time) {
  const Tensor grad = gradient({100000}, DType::f32), norm = zeros(*device, {}), clip = zeros(*device, {});
  Replayed work;
  for (int i = 1; i <= 4; ++i) {
    copy(gradient({100000}, DType::f32), grad);
    work.run(device->stream(), [&] {
      gradient_norm(device->stream(), {.grads = {grad.view()}, .max_norm = 1, .norm = norm.mut_view(), .clip = clip.mut_view()});
    });
    const Tensor other = gradient({100000}, DType::f32);  // takes memory that the work gave back
    const GradientNorm now = gradient_norm(*device, std::vector<Tensor>{grad}, 1);
    EXPECT_EQ(bits(norm), bits(now.norm)) << "run " << i;
    EXPECT_EQ(bits(clip), bits(now.clip)) << "run " << i;
  }
}

}  // namespace
}  // namespace weft
