// Layers of one input by one matmul: bits and gradients beside those of separate layers, the rules of use, and the memory of gradients.
#include "weft/nn/joint_linear.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/unit/test_device.h"
#include "weft/autograd/backward.h"
#include "weft/base/philox.h"
#include "weft/nn/attention.h"
#include "weft/nn/mlp.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/elementwise/operators.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/rope/rope.h"
#include "weft/ops/uniform/uniform.h"
#include "weft/tensor/gradient_home.h"
#include "weft/tensor/node.h"
#include "weft/train/optimizers.h"

namespace weft {
namespace {

constexpr int64_t kIn = 20;
constexpr std::array<int64_t, 3> kOut = {24, 8, 16};

class JointLinearTest : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device(test_device(), {.checked = true});
  uint32_t drawn = 0;

  Tensor normal(const Shape& shape, DType dtype) {
    PhiloxStream random(11, drawn++);
    std::vector<float> values(size_t(shape.numel()));
    for (float& v : values) v = float(random.normal());
    return cast(Tensor::from_host(*device, shape, values), dtype);
  }
  // An input inside a graph, whose gradient has its own dtype; `leaf` receives it.
  Tensor input(Tensor& leaf, const Shape& shape, DType dtype) {
    leaf = normal(shape, DType::f32);
    leaf = cast(cast(leaf, dtype), DType::f32);
    leaf.set_requires_grad();
    return cast(leaf, dtype);
  }
  static std::vector<float> host(const Tensor& x) { return cast(contiguous(x.detach()), DType::f32).to_host<float>(); }
};

struct Three {
  std::array<Linear, 3> layer;
  JointLinear joint;
  std::array<const Linear*, 3> all() const { return {&layer[0], &layer[1], &layer[2]}; }

  explicit Three(Weights& weights, bool bias = true, const std::array<int64_t, 3>& out = kOut, bool join = true) {
    joint = JointLinear(weights, "m.", kIn, {{"q", out[0], &layer[0]}, {"k", out[1], &layer[1]}, {"v", out[2], &layer[2]}},
                        {.bias = bias, .stddev = 0.4}, join);
  }
};

TEST_F(JointLinearTest, columns_have_the_bits_of_their_layers) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (bool bias : {false, true})
      for (int64_t rows : {1, 3, 5, 70}) {
        NewWeights weights(*device, dtype, true, 3);
        const Three three(weights, bias);
        if (bias)
          for (const Linear& l : three.layer) copy(normal({l.weight.shape()[0]}, dtype), l.bias.detach());
        const Tensor x = normal({rows, kIn}, dtype);
        ASSERT_TRUE(three.joint.applies(three.all(), x));
        const Tensor y = three.joint(three.all(), x).detach();
        int64_t first = 0;
        for (const Linear& l : three.layer) {
          const int64_t out = l.weight.shape()[0];
          const NoGrad no_grad;
          EXPECT_EQ(host(y.part(1, first, first + out)), host(l(x))) << dtype << " " << rows << " rows";
          first += out;
        }
      }
}

// A sum of `terms` products with an f32 accumulator, rounded to dtype (docs/numerics.md), of which `times` are added.
double bound(double terms, double magnitudes, double value, DType dtype, double times = 1) {
  const double n = times * (terms + 2), growth = std::min(n, 8 * std::sqrt(n));
  return growth * 0x1p-24 * times * magnitudes + (dtype == DType::bf16 ? 0x1p-8 * times * std::abs(value) : 0) + 1e-30;
}

// dx, dW and db against float64; the second backward adds to the gradients of the first.
TEST_F(JointLinearTest, gradients_are_those_of_the_formula) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    NewWeights weights(*device, dtype, true, 3);
    const Three three(weights);
    const int64_t T = 14, N = 48;
    Tensor leaf;
    const Tensor dy = normal({2, 7, N}, dtype);
    std::vector<float> xs, w;
    for (int time : {1, 2}) {
      if (time == 1) leaf = Tensor();
      const Tensor x = leaf ? cast(leaf, dtype) : input(leaf, {2, 7, kIn}, dtype);
      xs = host(x);
      backward(three.joint(three.all(), x), dy);
      w.clear();
      for (const Linear& l : three.layer)
        for (float value : host(l.weight)) w.push_back(value);
      const std::vector<float> d = host(dy), dx = leaf.grad().to_host<float>();
      for (int64_t t = 0; t < T; ++t)
        for (int64_t k = 0; k < kIn; ++k) {
          double sum = 0, size = 0;
          for (int64_t n = 0; n < N; ++n) {
            const double term = double(d[size_t(t * N + n)]) * double(w[size_t(n * kIn + k)]);
            sum += term, size += std::abs(term);
          }
          EXPECT_NEAR(dx[size_t(t * kIn + k)], time * sum, bound(double(N), size, sum, dtype, time)) << dtype << " dx " << t << " " << k;
        }
      for (int64_t n = 0, i = 0; i < 3; n += kOut[size_t(i++)]) {
        const std::vector<float> dw = three.layer[size_t(i)].weight.grad().to_host<float>(),
                                 db = three.layer[size_t(i)].bias.grad().to_host<float>();
        for (int64_t row = 0; row < kOut[size_t(i)]; ++row)
          for (int64_t k = 0; k <= kIn; ++k) {  // k = kIn: the bias
            double sum = 0, size = 0;
            for (int64_t t = 0; t < T; ++t) {
              const double term = double(d[size_t(t * N + n + row)]) * (k < kIn ? double(xs[size_t(t * kIn + k)]) : 1.0);
              sum += term, size += std::abs(term);
            }
            EXPECT_NEAR(k < kIn ? dw[size_t(row * kIn + k)] : db[size_t(row)], time * sum, bound(double(T), size, sum, DType::f32, time))
                << dtype << " layer " << i << " " << row << " " << k;
          }
      }
    }
  }
}

TEST_F(JointLinearTest, falls_back_by_its_rules) {
  const Tensor x = normal({5, kIn}, DType::f32);
  const auto applies = [&](const Three& three) { return three.joint.applies(three.all(), x); };
  NewWeights trained(*device, DType::f32, true, 3), fixed(*device, DType::f32, false, 3);
  EXPECT_TRUE(applies(Three(trained)));
  EXPECT_FALSE(applies(Three(fixed))) << "not trained";
  EXPECT_FALSE(applies(Three(trained, true, {24, 12, 16}))) << "12 rows";
  EXPECT_FALSE(applies(Three(trained, true, kOut, false))) << "not wanted";
  EXPECT_FALSE(JointLinear().applies({}, x));
  {
    const NoGrad no_grad;
    EXPECT_FALSE(applies(Three(trained))) << "nothing recorded";
  }
  Three three(trained);
  three.layer[1].weight.set_requires_grad(false);
  EXPECT_FALSE(applies(three)) << "one weight is frozen";
  for (Linear& l : three.layer) l.weight.set_requires_grad(false);
  EXPECT_TRUE(applies(three)) << "the biases are trained";
  for (Linear& l : three.layer) l.bias.set_requires_grad(false);
  EXPECT_FALSE(applies(three)) << "nothing is trained";
  Tensor wanted = x.detach();
  wanted.set_requires_grad();
  EXPECT_TRUE(three.joint.applies(three.all(), wanted)) << "the gradient of x is wanted";
  three.layer[2].weight = normal({16, kIn}, DType::f32);
  EXPECT_FALSE(three.joint.applies(three.all(), wanted)) << "a weight was replaced";
  EXPECT_THROW(three.joint(three.all(), wanted), Error);
}

// Adapters on some layers, the weights frozen: values and gradients have the bits of separate layers, dx is another sum.
TEST_F(JointLinearTest, adapters_are_added_to_their_columns) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    NewWeights weights(*device, dtype, true, 3);
    weights.adapt({.rank = 3, .scale = 0.7, .targets = {"q", "v"}, .dropout = 0.3});
    const Three three(weights);
    for (const LoraAdapter& a : weights.adapters()) copy(normal(a.matrices.b.shape(), dtype), a.matrices.b.detach());
    const Tensor random = random_state(*device, 5), dy = normal({9, 48}, dtype);
    Tensor leaf;
    const Tensor x = input(leaf, {9, kIn}, dtype);
    const Tensor y = three.joint(three.all(), x, random);
    backward(y, dy);
    std::vector<std::vector<float>> joint;
    const auto collect = [&](std::vector<std::vector<float>>& to) {
      for (const LoraAdapter& a : weights.adapters())
        for (const Tensor& each : {a.matrices.a, a.matrices.b}) to.push_back(each.grad().to_host<float>()), each.clear_grad();
    };
    collect(joint);
    const std::vector<float> dx = leaf.grad().to_host<float>();
    leaf.clear_grad();
    std::vector<Tensor> each = apply_each(three.all(), cast(leaf, dtype), random), parts;
    int64_t first = 0;
    for (const Tensor& one : each) {
      const int64_t last = first + one.shape()[1];
      parts.push_back(contiguous(dy.part(1, first, last)));
      EXPECT_EQ(host(one), host(y.detach().part(1, first, last))) << dtype;
      first = last;
    }
    backward(each, parts);
    std::vector<std::vector<float>> separate;
    collect(separate);
    EXPECT_EQ(joint, separate) << dtype;
    const std::vector<float> expected = leaf.grad().to_host<float>();
    float largest = 0;
    for (float v : expected) largest = std::max(largest, std::abs(v));
    for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], expected[i], (dtype == DType::bf16 ? 0x1p-6 : 1e-6) * largest);
    for (const Linear& l : three.layer) EXPECT_FALSE(l.weight.grad());
  }
}

// The same leaves through one matmul and through one each.
TEST_F(JointLinearTest, gated_mlp_equals_separate_layers) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (HiddenActivation kind :
         {HiddenActivation::silu, HiddenActivation::relu, HiddenActivation::gelu_tanh, HiddenActivation::gelu_erf}) {
      NewWeights weights(*device, dtype, true, 3);
      GatedMlp joint;
      joint.activation = kind;
      joint.gate_up = JointLinear(weights, "", kIn, {{"gate", 40, &joint.gate}, {"up", 40, &joint.up}}, {.stddev = 0.4});
      joint.down = Linear(weights, "down", 40, kIn, {.stddev = 0.4});
      const GatedMlp separate{joint.gate, joint.up, joint.down, kind};
      Tensor leaf;
      input(leaf, {9, kIn}, dtype);
      const Tensor dy = normal({9, kIn}, dtype);
      std::vector<float> results[2];
      std::vector<std::vector<float>> grads[2];
      for (bool one : {false, true}) {
        const Tensor y = (one ? joint : separate)(cast(leaf, dtype));
        results[one] = host(y);
        backward(y, dy);
        for (const Parameter& p : weights.taken()) grads[one].push_back(p.tensor.grad().to_host<float>()), p.tensor.clear_grad();
        leaf.clear_grad();
      }
      EXPECT_EQ(results[0], results[1]) << dtype << " " << name(kind);
      if (on_cpu()) {
        EXPECT_EQ(grads[0], grads[1]) << dtype << " " << name(kind);
      }
    }
}

TEST_F(JointLinearTest, rope_in_place_equals_rope) {
  const RopeTable table = rope_table(*device, 8, 6, 10000.0);
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Tensor values = normal({2, 8, 4, 6}, dtype), dy = normal({2, 8, 4, 6}, dtype), before = Tensor::empty(*device, dy.shape(), dtype);
    copy(dy, before);
    Tensor leaf = cast(values, DType::f32);
    leaf.set_requires_grad();
    const Tensor y = rope_in_place(scale(cast(leaf, dtype), 2), 3, table, {});
    backward(y, dy);
    EXPECT_EQ(host(dy), host(before)) << "the caller's gradient was overwritten";
    const Tensor expected = rope(scale(values, 2), table, RopeOptions{});
    EXPECT_EQ(host(y.detach().part(2, 0, 3)), host(expected.part(2, 0, 3)));
    EXPECT_EQ(host(y.detach().part(2, 3, 4)), host(scale(values, 2).part(2, 3, 4)));
    Tensor plain = values.detach();
    plain.set_requires_grad();
    backward(rope(scale(plain, 2), table, RopeOptions{}), dy);
    EXPECT_EQ(host(leaf.grad().part(2, 0, 3)), host(plain.grad().part(2, 0, 3)));
    EXPECT_EQ(host(leaf.grad().part(2, 3, 4)), host(scale(dy, 2).part(2, 3, 4)));
  }
  // A value that an op has kept is gone.
  Tensor leaf = normal({1, 8, 1, 6}, DType::f32);
  leaf.set_requires_grad();
  const Tensor inner = scale(leaf, 2), square = inner * inner;
  rope_in_place(inner, 1, table, {});
  EXPECT_THROW(backward(square, normal({1, 8, 1, 6}, DType::f32)), Error);
  EXPECT_THROW(rope_in_place(inner, 2, table, {}), Error);
}

// Each leaf has a gradient of its own; the buffer that they share goes with the last of them.
TEST_F(JointLinearTest, gradients_share_one_buffer) {
  NewWeights weights(*device, DType::bf16, true, 3);
  const Three three(weights, false);
  const auto gradients = [&] { return device->pool().stats().of(MemoryUse::gradients).in_use; };
  EXPECT_EQ(gradients(), 0);
  zero_grad(three.layer[1].weight);
  const int64_t live = gradients();
  EXPECT_GE(live, 48 * kIn * 4);
  EXPECT_FALSE(three.layer[0].weight.grad());
  const Tensor x = normal({5, kIn}, DType::bf16), dy = normal({5, 48}, DType::bf16);
  backward(three.joint(three.all(), x), dy);  // to new memory, then copied
  const std::vector<float> once = three.layer[1].weight.grad().to_host<float>();
  for (const Linear& l : three.layer) {
    EXPECT_EQ(l.weight.grad().view().buffer, three.layer[0].weight.grad().view().buffer);
    zero_grad(l.weight);
  }
  EXPECT_EQ(gradients(), live);
  backward(three.joint(three.all(), x), dy);  // in place
  EXPECT_EQ(three.layer[1].weight.grad().to_host<float>(), once);
  three.layer[0].weight.clear_grad();
  three.layer[1].weight.clear_grad();
  EXPECT_EQ(gradients(), live);
  zero_grad(three.layer[0].weight);
  EXPECT_EQ(three.layer[0].weight.grad().view().buffer, three.layer[2].weight.grad().view().buffer);
  for (const Linear& l : three.layer) l.weight.clear_grad();
  EXPECT_EQ(gradients(), 0);
}

// The gradients of all parameters are one tensor, in which those of the joint weights follow each other, biases elsewhere.
TEST_F(JointLinearTest, optimizers_keep_joint_gradients_together) {
  NewWeights weights(*device, DType::f32, true, 3);
  const Three three(weights);
  SGD optimizer(weights.taken(), {});
  optimizer.allocate_gradients();
  std::vector<Tensor> grads;
  for (const Linear& l : three.layer) grads.push_back(l.weight.grad());
  ASSERT_TRUE(stacked(grads));
  EXPECT_EQ(stacked(grads).shape, (Shape{48, kIn}));
  std::swap(grads[0], grads[1]);
  EXPECT_FALSE(stacked(grads));
  float value = 0;
  for (const Parameter& p : optimizer.parameters()) fill(p.tensor.grad(), double(++value));
  value = 0;
  for (const Parameter& p : optimizer.parameters())
    EXPECT_EQ(p.tensor.grad().to_host<float>(), std::vector<float>(size_t(p.tensor.numel()), ++value)) << p.name;
}

}  // namespace
}  // namespace weft
