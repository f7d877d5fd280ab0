// Tensor-level gradient rules: for each op, the derivative along a random direction against a central difference of the whole function.
// (The specs hold kernels and references to tight bounds; these tests find rules that lose, swap or misplace a gradient.)
#include "weft/autograd/backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "weft/autograd/recompute.h"
#include "weft/weft.h"

namespace weft {
namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

std::vector<float> draws(int64_t n, uint64_t seed) { return normal_values(n, seed, 1.0); }

class Autograd : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device("cpu", {.checked = true});

  Tensor random(const Shape& shape, uint64_t seed) { return Tensor::from_host(*device, shape, draws(shape.numel(), seed)); }

  // Sum of y times fixed random weights: a scalar that depends on every element of y.
  double weighted(const Tensor& y) {
    const Tensor flat = contiguous(y.detach());
    const std::vector<float> values = flat.to_host<float>(), weights = draws(flat.numel(), 99);
    double total = 0;
    for (size_t i = 0; i < values.size(); ++i) total += double(values[i]) * weights[i];
    return total;
  }

  void expect_gradients(const std::vector<Shape>& shapes, const Function& f) {
    std::vector<std::vector<float>> at, along;
    for (size_t i = 0; i < shapes.size(); ++i) {
      at.push_back(draws(shapes[i].numel(), 10 + i));
      along.push_back(draws(shapes[i].numel(), 50 + i));
    }
    std::vector<Tensor> leaves;
    for (size_t i = 0; i < shapes.size(); ++i) leaves.push_back(Tensor::from_host(*device, shapes[i], at[i]).set_requires_grad());
    const Tensor y = f(leaves);
    backward(y, Tensor::from_host(*device, y.shape(), draws(y.numel(), 99)));

    for (size_t i = 0; i < shapes.size(); ++i) {  // one input at a time, to detect swapped gradients
      ASSERT_TRUE(leaves[i].grad().defined()) << "input " << i;
      double analytic = 0;
      const std::vector<float> grad = leaves[i].grad().to_host<float>();
      for (size_t j = 0; j < grad.size(); ++j) analytic += double(grad[j]) * along[i][j];
      constexpr float kStep = 5e-3f;
      double numeric = 0;
      for (float sign : {1.0f, -1.0f}) {
        std::vector<Tensor> moved;
        for (size_t k = 0; k < shapes.size(); ++k) {
          std::vector<float> values = at[k];
          if (k == i)
            for (size_t j = 0; j < values.size(); ++j) values[j] += sign * kStep * along[i][j];
          moved.push_back(Tensor::from_host(*device, shapes[k], values));
        }
        numeric += double(sign) * weighted(f(moved)) / (2 * double(kStep));
      }
      double scale = 0;
      for (size_t j = 0; j < grad.size(); ++j) scale += std::pow(double(grad[j]) * along[i][j], 2);
      EXPECT_NEAR(analytic, numeric, 2e-2 * (std::sqrt(scale) + std::abs(analytic)) + 1e-3) << "input " << i;
    }
  }
};

TEST_F(Autograd, matmul_in_all_layouts) {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      expect_gradients({ta ? Shape{5, 4} : Shape{4, 5}, tb ? Shape{3, 5} : Shape{5, 3}},
                       [=](const auto& t) { return matmul(t[0], t[1], {.transpose_a = ta, .transpose_b = tb}); });
}
TEST_F(Autograd, matmul_with_bias_and_activation) {
  expect_gradients({{6, 5}, {5, 7}, {7}},
                   [](const auto& t) { return matmul(t[0], t[1], {.bias = t[2], .activation = Activation::gelu_tanh}); });
}
TEST_F(Autograd, activation) {
  for (Activation kind : {Activation::silu, Activation::gelu_tanh})
    expect_gradients({{3, 7}}, [=](const auto& t) { return activation(t[0], kind); });
}
TEST_F(Autograd, softmax) {
  expect_gradients({{3, 7}}, [](const auto& t) { return softmax(t[0], 0.7f); });
}
TEST_F(Autograd, rms_norm) {
  expect_gradients({{4, 9}, {9}}, [](const auto& t) { return rms_norm(t[0], t[1], 1e-3f); });
}
TEST_F(Autograd, rms_norm_residual_gradient_of_both_outputs) {
  expect_gradients({{4, 9}, {4, 9}, {9}}, [](const auto& t) {
    const auto [h, y] = rms_norm_residual(t[0], t[1], t[2], 1e-3f);
    return add(y, scale(h, 0.5f));
  });
}
TEST_F(Autograd, layer_norm) {
  expect_gradients({{4, 9}, {9}, {9}}, [](const auto& t) { return layer_norm(t[0], t[1], t[2], 1e-3f); });
}
TEST_F(Autograd, layer_norm_residual_gradient_of_both_outputs) {
  expect_gradients({{4, 9}, {4, 9}, {9}, {9}}, [](const auto& t) {
    const auto [h, y] = layer_norm_residual(t[0], t[1], t[2], t[3], 1e-3f);
    return add(y, scale(h, 0.5f));
  });
}
TEST_F(Autograd, rope) {
  const RopeTable table = rope_table(*device, 16, 8, 10000.0);
  for (RopePairs pairs : {RopePairs::half_split, RopePairs::interleaved})
    expect_gradients({{2, 5, 3, 8}}, [=](const auto& t) { return rope(t[0], table, Tensor(), pairs); });
}
TEST_F(Autograd, causal_attention_with_grouped_heads) {
  expect_gradients({{2, 5, 4, 8}, {2, 5, 2, 8}, {2, 5, 2, 8}}, [](const auto& t) { return causal_attention(t[0], t[1], t[2]); });
}
TEST_F(Autograd, embedding) {
  const Tensor ids = Tensor::from_host(*device, {2, 3}, std::vector<int32_t>{4, 0, 4, 2, 1, 4});
  expect_gradients({{5, 6}}, [=](const auto& t) { return embedding(t[0], ids); });
}
TEST_F(Autograd, cross_entropy) {
  const Tensor targets = Tensor::from_host(*device, {4}, std::vector<int32_t>{1, 6, 0, 3});
  expect_gradients({{4, 7}}, [=](const auto& t) { return cross_entropy(t[0], targets, {.pad_id = 6}); });
}
TEST_F(Autograd, reductions) {
  for (int axis : {0, 1, 2}) {
    expect_gradients({{3, 4, 5}}, [=](const auto& t) { return reduce_sum(t[0], axis); });
    expect_gradients({{3, 4, 5}}, [=](const auto& t) { return reduce_sum_squares(t[0], axis); });
    expect_gradients({{3, 4, 5}}, [=](const auto& t) { return reduce_max(t[0], axis); });
  }
  expect_gradients({{3, 4, 5}}, [](const auto& t) { return sum_all(t[0]); });
}
TEST_F(Autograd, small_ops) {
  expect_gradients({{3, 4}}, [](const auto& t) { return transpose_2d(t[0]); });
  expect_gradients({{3, 4}, {4}}, [](const auto& t) { return bias_add(t[0], t[1]); });
  expect_gradients({{3, 4}, {3, 4}}, [](const auto& t) { return add(t[0], t[1]); });
  expect_gradients({{3, 4}}, [](const auto& t) { return scale(t[0], -2.5f); });
  const Tensor state = random_state(*device, 7);
  expect_gradients({{13, 4}}, [=](const auto& t) { return dropout(t[0], 0.25f, state, 3); });
}
TEST_F(Autograd, views) {
  expect_gradients({{3, 4, 2}}, [](const auto& t) { return softmax(contiguous(t[0].permute({2, 0, 1}))); });
  expect_gradients({{3, 4}}, [](const auto& t) { return softmax(t[0].reshape({4, 3})); });
  expect_gradients({{3, 6}}, [](const auto& t) { return softmax(contiguous(slice(t[0], 1, 2, 5))); });
  // A permuted gradient arrives at a reshape.
  expect_gradients({{6, 4}}, [](const auto& t) { return softmax(contiguous(t[0].reshape({3, 2, 4}).permute({1, 0, 2}))); });
  // The gradient that flows into a permuted tensor is itself permuted.
  expect_gradients({{2, 3, 4, 8}, {2, 3, 4, 8}, {2, 3, 4, 8}},
                   [](const auto& t) { return contiguous(causal_attention(t[0], t[1], t[2]).permute({0, 2, 1, 3})); });
}
TEST_F(Autograd, tensor_used_twice_gets_the_sum_of_gradients) {
  expect_gradients({{3, 4}}, [](const auto& t) { return add(softmax(t[0]), scale(t[0], 2.0f)); });
  expect_gradients({{4, 4}}, [](const auto& t) { return matmul(t[0], t[0]); });
}

TEST_F(Autograd, backward_accumulates_until_cleared) {
  Tensor x = random({4}, 1).set_requires_grad();
  backward(sum_all(scale(x, 3.0f)));
  backward(sum_all(scale(x, 3.0f)));
  EXPECT_EQ(x.grad().to_host<float>(), std::vector<float>(4, 6.0f));
  x.clear_grad();
  EXPECT_FALSE(x.grad().defined());
}
TEST_F(Autograd, gradients_of_bf16_leaves_are_f32) {
  Tensor x = cast(random({4}, 1), DType::bf16).set_requires_grad();
  backward(sum_all(scale(x, 3.0f)));
  EXPECT_EQ(x.grad().dtype(), DType::f32);
}
TEST_F(Autograd, no_grad_records_nothing) {
  Tensor x = random({4}, 1).set_requires_grad();
  {
    const NoGrad scope;
    EXPECT_FALSE(scale(x, 3.0f).requires_grad());
  }
  EXPECT_TRUE(scale(x, 3.0f).requires_grad());
}
TEST_F(Autograd, error_when_not_differentiable) {
  Tensor x = random({1, 1, 1, 4}, 1).set_requires_grad();
  const Tensor start = zeros(*device, {1}, DType::i32);
  try {
    kv_attention(x, random({1, 2, 1, 4}, 2), random({1, 2, 1, 4}, 3), start);
    FAIL() << "a gradient was silently dropped";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has no gradient"), std::string::npos) << error.what();
  }
  EXPECT_THROW(add_assign(x, x.detach()), Error);  // in place on a leaf that requires a gradient
  EXPECT_THROW(backward(random({1}, 1)), Error);   // nothing requires a gradient
  EXPECT_THROW(backward(scale(x, 1.0f)), Error);   // not a scalar
}
TEST_F(Autograd, dropped_graph_frees_its_memory) {
  const int64_t before = device->pool().stats().live;
  {
    Tensor x = random({8, 8}, 1).set_requires_grad();
    Tensor y = softmax(rms_norm(x, random({8}, 2), 1e-5f));
    backward(sum_all(y));
  }
  EXPECT_EQ(device->pool().stats().live, before);
}
// In-place writes between the forward and the backward pass: backward() names the op and the shape of the overwritten tensor.
void expect_overwritten(const Tensor& y, const std::string& op, const std::string& shape) {
  try {
    backward(sum_all(y));
    FAIL() << op << ": a gradient of other values than the forward pass had";
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), op) << error.what();
    EXPECT_NE(std::string(error.what()).find("shape " + shape + " of "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("was overwritten after it was recorded"), std::string::npos) << error.what();
  }
}

TEST_F(Autograd, overwriting_a_saved_tensor_of_a_row_op_is_an_error) {
  Tensor x = random({4, 6}, 1).set_requires_grad(), w = random({6, 5}, 2), norm = random({6}, 3);
  Tensor y = matmul(x, w);
  copy(random({6, 5}, 4), w);
  expect_overwritten(y, "matmul", "6x5");

  y = softmax(x);
  fill(y.detach(), 0.0);  // through another tensor handle
  expect_overwritten(y, "softmax", "4x6");

  y = rms_norm(x, norm, 1e-5f);
  zero(x.detach().part(1, 2, 3));  // through a view of a part
  expect_overwritten(y, "rms_norm", "4x6");

  y = layer_norm(x, norm, Tensor(), 1e-5f);
  add_assign(norm, random({6}, 5));
  expect_overwritten(y, "layer_norm", "6");

  static const auto square = fuse([](Expr v) { return v * v; });
  y = square(x);
  square.into(x.detach().reshape({24}), x.detach().reshape({24}));  // through a view of another shape
  expect_overwritten(y, "elementwise", "4x6");

  y = reduce_max(x, 1);
  zero(y.detach());
  expect_overwritten(y, "reduce_max", "4");

  y = recompute([](const std::vector<Tensor>& in) { return std::vector<Tensor>{softmax(in[0])}; }, {x}).front();
  zero(x.detach());
  expect_overwritten(y, "recompute", "4x6");

  y = activation(x, Activation::silu);
  zero(x.detach());
  expect_overwritten(y, "activation", "4x6");
}

TEST_F(Autograd, overwriting_ids_positions_or_random_state_is_an_error) {
  Tensor x = random({4, 6}, 1).set_requires_grad();
  const Tensor state = random_state(*device, 7);
  Tensor y = dropout(x, 0.5f, state, 1);
  advance_random_state(state);  // another mask
  expect_overwritten(y, "dropout", "4");

  const Tensor ids = zeros(*device, {3}, DType::i32);
  const std::vector<int32_t> others = {1, 2, 3};
  y = embedding(x, ids);
  device->upload(*ids.view().buffer, 0, others.data(), 12);
  expect_overwritten(y, "embedding", "3");

  Tensor q = random({1, 3, 2, 4}, 8).set_requires_grad();
  const Tensor k = random({1, 3, 2, 4}, 9), v = random({1, 3, 2, 4}, 10);
  y = causal_attention(q, k, v);
  zero(v);
  expect_overwritten(y, "causal_attention", "1x3x2x4");

  const Tensor start = zeros(*device, {1}, DType::i32);
  y = rope(q, rope_table(*device, 8, 4, 1e4), start);
  fill(start, 2);  // other positions
  expect_overwritten(y, "rope", "1");
}

TEST_F(Autograd, overwriting_by_an_optimizer_step_is_an_error) {
  Tensor x = random({4, 6}, 1).set_requires_grad(), w = random({6, 5}, 2);
  const Tensor g = random({4, 6}, 11), m = zeros(*device, x.shape()), v2 = zeros(*device, x.shape()), lr = full(*device, {1}, 0.1);
  const Tensor step = full(*device, {1}, 1, DType::i32);
  static const auto square = fuse([](Expr v) { return v * v; });
  const Tensor z = square(x);
  const Tensor y = matmul(x, w);
  adamw(device->stream(), {.tensors = {{x.mut_view(), g.view(), m.mut_view(), v2.mut_view(), {}, 0.0f}},
                           .lr = lr.view(),
                           .step = step.view(),
                           .grad_scale = {},
                           .beta1 = 0.9,
                           .beta2 = 0.999,
                           .eps = 1e-8});
  expect_overwritten(z, "elementwise", "4x6");  // an optimizer step wrote to it
  backward(sum_all(y));                         // needs only w
}

TEST_F(Autograd, unneeded_tensors_may_be_overwritten) {
  Tensor x = random({4, 6}, 1).set_requires_grad();
  const Tensor w = random({6, 5}, 2), other = random({4, 6}, 3);
  Tensor h = scale(add(x, other), 2.0f);
  const Tensor y = matmul(h, w);  // needs w and only the shape of h: w requires no gradient
  zero(other);
  zero(h.detach());
  zero(y.detach());
  backward(sum_all(y));
  const std::vector<float> once = x.grad().to_host<float>();
  zero(x.detach());  // after backward, everything may be written
  zero(w);
  EXPECT_GT(std::abs(once[0]), 0);
}

}  // namespace
}  // namespace weft
