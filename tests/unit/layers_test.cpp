// Gradients of every layer against finite differences (weft/autograd/gradcheck.h), for inputs and weights. model_test.cpp has whole models.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/unit/test_device.h"
#include "weft/autograd/gradcheck.h"
#include "weft/base/philox.h"
#include "weft/nn/attention.h"
#include "weft/nn/mlp.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/embedding/embedding.h"
#include "weft/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/ops/rope/rope.h"
#include "weft/ops/uniform/uniform.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr int64_t kB = 2, kT = 7, kC = 12;

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double(a[i]) - double(b[i])));
  return largest;
}

class Layers : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device(test_device(), {.checked = true});
  NewWeights weights{*device, DType::f32, true, 3};
  std::vector<NamedTensor> inputs;

  // An input that requires a gradient.
  Tensor input(const char* name, const Shape& shape) {
    PhiloxStream random(11, uint32_t(inputs.size()));
    std::vector<float> values(size_t(shape.numel()));
    for (float& v : values) v = float(random.normal());
    Tensor x = Tensor::from_host(*device, shape, values);
    x.set_requires_grad();
    inputs.push_back({name, x});
    return x;
  }
  Tensor x() { return input("x", {kB, kT, kC}); }
  Linear linear(const char* name, int64_t in, int64_t out, Linear::Layout layout = Linear::Layout::out_in) {
    return Linear(weights, name, in, out, {.bias = true, .layout = layout, .stddev = 0.4});
  }

  // The bound is that of whole models: sums of f32 values, fourth-order differences.
  void expect_gradients(const std::function<Tensor()>& f, double step = 2e-2, double bound = 2e-3) {
    std::vector<NamedTensor> leaves = inputs;
    for (const NamedTensor& p : weights.taken())
      if (p.tensor.requires_grad()) leaves.push_back(p);
    for (const LoraAdapter& a : weights.adapters()) {
      leaves.push_back({a.a_name(), a.matrices.a});
      leaves.push_back({a.b_name(), a.matrices.b});
    }
    for (const GradcheckResult& r : gradcheck(f, leaves, {.step = step}))
      EXPECT_LE(r.error(), bound) << r.name << ": " << r.analytic << " " << r.numeric;
  }
};

// One launch for all layers or one each; few rows and many, where one matmul gets the tasks of all.
TEST_F(Layers, several_layers_of_one_input_equal_single_ones) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t rows : {1, 3, 4, 5, 40}) {
      NewWeights plain(*device, dtype, false, 7);
      const auto make = [&](const char* name, int64_t out, bool bias) {
        return Linear(plain, name, 70, out, {.bias = bias, .stddev = 0.4});
      };
      const Linear a = make("a", 130, true), b = make("b", 1, false), c = make("c", 64, true);
      const Tensor in = cast(input("x", {rows, 70}).detach(), dtype);
      const std::vector<Tensor> all = apply_each(std::array{&a, &b, &c}, in);
      for (auto [layer, got] : {std::pair{&a, all[0]}, {&b, all[1]}, {&c, all[2]}})
        EXPECT_EQ(cast(got, DType::f32).to_host<float>(), cast((*layer)(in), DType::f32).to_host<float>())
            << dtype << " " << rows << " rows";
    }
}

TEST_F(Layers, gradients_of_several_layers_of_one_input) {
  const Linear learned = linear("learned", kC, 9), other = linear("other", kC, 5);
  const Tensor in = x();
  expect_gradients([&] {
    const std::vector<Tensor> both = apply_each(std::array{&learned, &other}, in);
    return add(sum_all(both[0]), sum_all(both[1]));
  });
}

TEST_F(Layers, linear) {
  const Tensor in = x();
  const Linear there = linear("there", kC, 9), back = linear("back", 9, kC, Linear::Layout::in_out);
  for (Activation activation : {Activation::none, Activation::silu, Activation::gelu_tanh})
    expect_gradients([&] { return back(there(in, activation)); });
}

// An adapter beside a frozen weight; with dropout, the same state drops the same elements.
TEST_F(Layers, low_rank_adapter) {
  weights.adapt({.rank = 3, .scale = 0.7, .targets = {"adapted"}, .dropout = 0.3});
  const Tensor in = x();
  const Linear layer = linear("adapted", kC, 9);
  copy(input("b", {9, 3}).detach(), layer.adapter.b.detach());  // B starts at zero, so A would have no gradient
  inputs.pop_back();
  for (const Tensor& random : {Tensor(), random_state(*device, 5)}) expect_gradients([&] { return layer(in, Activation::silu, random); });
  const std::vector<float> plain = layer(in).to_host<float>(), dropped = layer(in, random_state(*device, 5)).to_host<float>();
  EXPECT_NE(plain, dropped);
  EXPECT_EQ(dropped, layer(in, random_state(*device, 5)).to_host<float>());
}

TEST_F(Layers, rms_norm) {
  const Tensor in = x(), delta = input("delta", {kB, kT, kC});
  const RmsNorm norm(weights, "norm", kC, 1e-5);
  expect_gradients([&] {
    const Normed normed = norm(Residual{in, delta});
    return add(normed.h, add(normed.y, norm(in)));
  });
}

TEST_F(Layers, layer_norm) {
  const Tensor in = x(), delta = input("delta", {kB, kT, kC});
  const LayerNorm norm(weights, "norm", kC, 1e-5);
  expect_gradients([&] {
    const Normed normed = norm(Residual{in, delta});
    return add(normed.h, add(normed.y, norm(in)));
  });
}

TEST_F(Layers, gated_mlp) {
  const Tensor in = x();
  const Linear gate = linear("gate", kC, 20), up = linear("up", kC, 20), down = linear("down", 20, kC);
  for (HiddenActivation kind : {HiddenActivation::silu, HiddenActivation::gelu_tanh, HiddenActivation::gelu_erf}) {
    const GatedMlp mlp{gate, up, down, kind};
    expect_gradients([&] { return mlp(in); });
  }
}

TEST_F(Layers, mlp) {
  const Tensor in = x();
  const Linear fc = linear("fc", kC, 20, Linear::Layout::in_out), proj = linear("proj", 20, kC, Linear::Layout::in_out);
  for (HiddenActivation kind : {HiddenActivation::silu, HiddenActivation::gelu_tanh, HiddenActivation::gelu_erf, HiddenActivation::relu}) {
    const Mlp mlp{fc, proj, kind};
    const bool kinks = kind == HiddenActivation::relu;  // the step must rarely cross one
    expect_gradients([&] { return mlp(in); }, kinks ? 1e-4 : 2e-2, kinks ? 2e-2 : 2e-3);
  }
}

// Projections, RoPE, attention with two query heads per key/value head, output projection.
TEST_F(Layers, attention) {
  constexpr int64_t H = 4, Hkv = 2, D = 6;
  const Tensor in = x();
  const Linear q = linear("q", kC, H * D), k = linear("k", kC, Hkv * D), v = linear("v", kC, Hkv * D), o = linear("o", H * D, kC);
  const RopeTable table = rope_table(*device, kT, D, 10000.0);
  Positions positions(*device);
  const Pass pass{.B = kB, .T = kT, .positions = &positions, .kv = nullptr, .dropout = {}};
  expect_gradients([&] {
    const Tensor queries = rope(q(in).reshape({kB, kT, H, D}), table, Tensor()),
                 keys = rope(k(in).reshape({kB, kT, Hkv, D}), table, Tensor());
    return o(attend(queries, keys, v(in).reshape({kB, kT, Hkv, D}), pass).reshape({kB, kT, H * D}));
  });
}

TEST_F(Layers, attention_packed) {
  constexpr int64_t H = 2, D = 6;
  const Tensor in = x();
  const Linear qkv = linear("qkv", kC, 3 * H * D, Linear::Layout::in_out), o = linear("o", H * D, kC, Linear::Layout::in_out);
  Positions positions(*device);
  const Pass pass{.B = kB, .T = kT, .positions = &positions, .kv = nullptr, .dropout = {}};
  expect_gradients([&] { return o(attend_packed(qkv(in).reshape({kB, kT, 3 * H, D}), H, pass).reshape({kB, kT, H * D})); });
}

// Window and soft cap, each alone and both, in one op and with the probabilities in memory: gradients, and equal results. A window of
// all keys and a cap far above the scores change nothing.
TEST_F(Layers, attention_with_window_and_soft_cap) {
  constexpr int64_t H = 4, Hkv = 2, D = 6;
  const Tensor q = input("q", {kB, kT, H, D}), k = input("k", {kB, kT, Hkv, D}), v = input("v", {kB, kT, Hkv, D});
  const Tensor qkv = input("qkv", {kB, kT, H + 2 * Hkv, D});
  Positions positions(*device);
  const Pass pass{.B = kB, .T = kT, .positions = &positions, .kv = nullptr, .dropout = {}};
  Pass dropping = pass;
  dropping.dropout = random_state(*device, 5);
  const auto attended = [&](const Pass& pass, const AttendOptions& options) { return attend(q, k, v, pass, options).to_host<float>(); };
  const std::vector<float> plain = attended(pass, {});
  EXPECT_EQ(attended(pass, {.window = kT}), plain);
  for (const AttendOptions& options : {AttendOptions{.window = 3}, {.soft_cap = 0.8f}, {.window = 2, .soft_cap = 1.5f}}) {
    SCOPED_TRACE(testing::Message() << "window " << options.window << ", soft cap " << options.soft_cap);
    const std::vector<float> found = attended(pass, options);
    EXPECT_GT(largest_difference(found, plain), 1e-2);
    AttendOptions in_memory = options;
    in_memory.dropout = 1e-9f;  // drops nothing here
    EXPECT_LE(largest_difference(attended(dropping, in_memory), found), 1e-5);
    expect_gradients([&] { return add(attend(q, k, v, pass, options), attend_packed(qkv, Hkv, pass, options)); });
    expect_gradients([&] { return add(attend(q, k, v, dropping, in_memory), attend_packed(qkv, Hkv, dropping, in_memory)); });
  }
}

// Position i of a window attends to itself and the keys right before it: values of other keys do not reach it.
TEST_F(Layers, a_window_hides_earlier_values) {
  constexpr int64_t D = 4, kWindow = 3;
  Positions positions(*device);
  const Pass pass{.B = 1, .T = kT, .positions = &positions, .kv = nullptr, .dropout = {}};
  Pass dropping = pass;
  dropping.dropout = random_state(*device, 5);
  const Tensor q = input("q", {1, kT, 1, D}), k = input("k", {1, kT, 1, D}), v = input("v", {1, kT, 1, D});
  std::vector<float> values = v.to_host<float>();
  for (int64_t c = 0; c < D; ++c) values[size_t(c)] += 100;  // of the first key
  const Tensor other = Tensor::from_host(*device, v.shape(), values);
  for (const auto& [of, dropout] : {std::pair{&pass, 0.0f}, {&dropping, 1e-9f}}) {
    const AttendOptions options{.dropout = dropout, .window = kWindow};
    const std::vector<float> one = attend(q, k, v, *of, options).to_host<float>(), two = attend(q, k, other, *of, options).to_host<float>();
    for (int64_t i = 0; i < kT; ++i) EXPECT_EQ(one[size_t(i * D)] != two[size_t(i * D)], i < kWindow) << "position " << i;
  }
}

TEST_F(Layers, attention_refuses_wrong_options) {
  const Tensor q = input("q", {1, 3, 2, 4});
  Positions positions(*device);
  const Pass pass{.B = 1, .T = 3, .positions = &positions, .kv = nullptr, .dropout = {}};
  EXPECT_THROW(attend(q, q, q, pass, {.window = -1}), Error);
  EXPECT_THROW(attend(q, q, q, pass, {.soft_cap = -1}), Error);
}

// A window and a soft cap in passes with a cache: a prompt, then tokens one by one, have the bits of the pass without one.
TEST_F(Layers, attention_with_a_cache_has_a_window_and_a_soft_cap) {
  if (test_device() == "cuda") GTEST_SKIP() << "kv_attention on CUDA has neither";
  const NoGrad no_grad;
  constexpr int64_t kPrompt = 4, kTokens = 9;
  const Tensor q = input("q", {1, kTokens, 2, 4}), k = input("k", {1, kTokens, 2, 4}), v = input("v", {1, kTokens, 2, 4});
  Positions positions(*device);
  for (const AttendOptions& options : {AttendOptions{.window = 3}, {.soft_cap = 0.5f}, {.window = 2, .soft_cap = 1}}) {
    const Pass whole{.B = 1, .T = kTokens, .positions = &positions, .kv = nullptr, .dropout = {}};
    const std::vector<float> expected = attend(q, k, v, whole, options).to_host<float>();
    KvCache cache(*device, {.layers = 1, .batch = 1, .capacity = 16, .heads = 2, .head_dim = 4});
    std::vector<float> got;
    for (int64_t first = 0; first < kTokens; first = std::max(kPrompt, first + 1)) {
      const int64_t last = std::max(kPrompt, first + 1);
      KvPass kv(cache, last - first);
      const Pass pass{.B = 1, .T = last - first, .positions = &positions, .kv = &kv, .dropout = {}};
      const auto part = [&](const Tensor& x) { return contiguous(x.part(1, first, last)); };
      for (float value : attend(part(q), part(k), part(v), pass, options).to_host<float>()) got.push_back(value);
      kv.commit();
    }
    EXPECT_EQ(got, expected) << "window " << options.window << ", soft cap " << options.soft_cap;
  }
}

TEST_F(Layers, embedding) {
  const Tensor table = weights.take("table", {10, kC}, Init::normal(0.5));
  const Tensor ids =
      Tensor::from_host(*device, {kB, kT}, std::vector<int32_t>{0, 9, 3, 3, 3, 1, 9, 2, 0, 4, 5, 5, 8, 7});  // id 6 never, id 3 three times
  const Linear after = linear("after", kC, kC);
  expect_gradients([&] { return after(embedding(table, ids)); });
}

TEST_F(Layers, linear_cross_entropy) {
  const Tensor in = input("x", {kB * kT, kC}), head = weights.take("head", {10, kC}, Init::normal(0.5));
  const Tensor targets = Tensor::from_host(*device, {kB * kT}, std::vector<int32_t>{0, 9, 3, 3, 6, 1, 9, 2, 0, 4, 5, 6, 8, 7});
  expect_gradients([&] { return linear_cross_entropy(in, head, targets, {.pad_id = 6}); });
}

}  // namespace
}  // namespace weft
