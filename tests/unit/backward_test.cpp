// Memory and order of the backward pass: what it frees, accumulates in place, and recomputes.
#include "weft/autograd/backward.h"

#include <gtest/gtest.h>

#include <thread>
#include <tuple>

#include "weft/autograd/leaf_watch.h"
#include "weft/autograd/recompute.h"
#include "weft/weft.h"

namespace weft {
namespace {

class Backward : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device("cpu", {.checked = true});

  Tensor random(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
    return cast(Tensor::from_host(*device, shape, normal_values(shape.numel(), seed, 1.0)), dtype);
  }
  int64_t in_use() { return device->pool().stats().in_use; }
};

TEST_F(Backward, second_backward_is_an_error) {
  const Tensor x = random({4}, 1).set_requires_grad();
  const Tensor loss = sum_all(scale(x, 3.0f));
  backward(loss);
  try {
    backward(loss);
    FAIL() << "the second walk found nothing to say";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("run the forward again"), std::string::npos) << error.what();
  }
}

// Built in one thread and continued in another, each without ops before: (1 + 3) 2 x.
TEST_F(Backward, graph_built_in_two_threads) {
  const Tensor x = random({4}, 1).set_requires_grad();
  Tensor twice;
  std::thread([&] { twice = scale(x, 2.0f); }).join();
  std::thread([&] { backward(sum_all(add(twice, scale(twice, 3.0f)))); }).join();
  EXPECT_EQ(x.grad().to_host<float>(), std::vector<float>(4, 8.0f));
}

// Allocates gradients when they are needed and counts what is added to them.
class CountAdditions : public LeafWatch {
 public:
  explicit CountAdditions(std::vector<Tensor> leaves) : leaves_(std::move(leaves)), counts(leaves_.size()), first(leaves_.size()) {}
  void before_addition(const Node& leaf) override {
    const size_t i = index(leaf);
    if (!leaf.grad) zero_grad(leaves_[i]), ++first[i];
  }
  void added(const Node& leaf) override {
    const size_t i = index(leaf);
    ++counts[i];
    sums.push_back(leaf.grad.to_host<float>()[0]);
  }
  size_t index(const Node& leaf) const {
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i].node().get() == &leaf) return i;
    ADD_FAILURE() << "a leaf that nobody knows";
    return 0;
  }

 private:
  std::vector<Tensor> leaves_;

 public:
  std::vector<int> counts, first;
  std::vector<float> sums;  // the first element after each addition
};

// One addition for each use: by rules that add to the sum themselves (matmul), by others, and inside recompute.
TEST_F(Backward, leaves_are_watched) {
  for (bool again : {false, true}) {
    const Tensor w = random({3, 3}, 1).set_requires_grad(), b = random({3}, 2).set_requires_grad();
    const Tensor x = random({3, 3}, 3);
    const auto block = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{add(matmul(in[0], w), w)}; };
    CountAdditions watch({w, b});
    Tensor y = block({x})[0];
    y = again ? recompute(block, {y})[0] : block({y})[0];
    const Tensor loss = add(sum_all(y), sum_all(b));
    {
      const WatchLeaves watching(watch);
      EXPECT_THROW(WatchLeaves{watch}, Error);
      backward(loss);
    }
    EXPECT_EQ(watch.counts, (std::vector<int>{4, 1})) << again;
    EXPECT_EQ(watch.first, (std::vector<int>{1, 1})) << again;
    EXPECT_EQ(watch.sums.back(), w.grad().to_host<float>()[0]);  // nothing came after the last report
    backward(sum_all(w));                                        // nobody looks
    EXPECT_EQ(watch.counts[0], 4);
  }
}

// Destroying a long chain without a backward pass must not overflow the stack.
TEST_F(Backward, long_chain_is_destroyed_without_recursion) {
  Tensor x = random({1}, 1).set_requires_grad();
  for (int i = 0; i < 200000; ++i) x = x.reshape({1});
  x = Tensor();
  EXPECT_FALSE(x.defined());
}

TEST_F(Backward, requires_grad_twice_keeps_the_gradient) {
  Tensor x = random({4}, 1).set_requires_grad();
  const Tensor loss = sum_all(scale(x, 3.0f));
  x.set_requires_grad();
  backward(loss);
  ASSERT_TRUE(x.grad().defined());
  EXPECT_EQ(x.grad().to_host<float>(), std::vector<float>(4, 3.0f));
}

// part() is for writing: it throws where a gradient would be lost; slice() keeps the gradient.
TEST_F(Backward, part_of_a_tensor_with_gradient_is_an_error) {
  const Tensor x = random({4}, 1).set_requires_grad();
  try {
    x.part(0, 1, 3);
    FAIL() << "a part of what requires a gradient";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("weft::slice"), std::string::npos) << error.what();
  }
  backward(sum_all(slice(x, 0, 1, 3)));
  EXPECT_EQ(x.grad().to_host<float>(), (std::vector<float>{0, 1, 1, 0}));
  const NoGrad no_grad;
  EXPECT_EQ(x.part(0, 1, 3).numel(), 2);
}

TEST_F(Backward, saved_tensors_are_freed_during_backward) {
  constexpr int64_t kBytes = 1 << 20, kDepth = 16;
  Tensor x = random({kBytes / 4}, 1).set_requires_grad();
  static const auto bend = fuse([](Expr v) { return tanh(v); });  // its derivative reads the input
  Tensor y = x;
  for (int i = 0; i < kDepth; ++i) y = bend(y);
  const Tensor loss = sum_all(y);
  y = Tensor();
  const int64_t kept = in_use();
  EXPECT_GE(kept, kDepth * kBytes);
  device->pool().reset_high_water();
  backward(loss);
  EXPECT_LE(device->pool().stats().high_water, kept + 2 * kBytes + kBytes / 8);  // one gradient is made while another is freed
  EXPECT_LE(in_use(), 2 * kBytes + kBytes / 8);                                  // only x and its gradient remain, although loss is alive
}

TEST_F(Backward, no_grad_saves_nothing) {
  const Tensor w = random({64, 64}, 1).set_requires_grad(), x = random({32, 64}, 2);
  const NoGrad no_grad;
  const int64_t before = device->pool().stats().live;
  const Tensor y = rms_norm(matmul(matmul(x, w), w), random({64}, 3), 1e-5f);
  EXPECT_EQ(device->pool().stats().live, before + 1);
}

// A weight gradient accumulates onto its current value, rows in order: two halves of a batch give the bits of the whole. Split anywhere in
// f32, and at a multiple of 32 rows in bf16, whose GEMMs take k in blocks of 32 on some CPUs.
TEST_F(Backward, weight_gradient_sums_rows_in_order) {
  for (auto [dtype, rows, cut] : {std::tuple{DType::f32, 24, 11}, {DType::bf16, 56, 32}}) {
    const Tensor x = random({rows, 33}, 1, dtype), dy = random({rows, 17}, 2, dtype);
    Tensor whole = random({17, 33}, 3, dtype).set_requires_grad(), halves = whole.detach().set_requires_grad();
    backward(matmul(x, whole, {.transpose_b = true}), dy);
    for (auto [first, last] : {std::pair{0, cut}, {cut, rows}})
      backward(matmul(x.part(0, first, last), halves, {.transpose_b = true}), dy.part(0, first, last));
    EXPECT_EQ(whole.grad().to_host<float>(), halves.grad().to_host<float>());
  }
}

TEST_F(Backward, weight_gradient_accumulates_in_place) {
  Tensor w = random({256, 256}, 1).set_requires_grad();
  const Tensor x = random({8, 256}, 2);
  backward(sum_all(matmul(x, w)));
  const Tensor grad = w.grad();
  const Tensor loss = sum_all(matmul(x, w));
  device->pool().reset_high_water();
  const int64_t before = in_use();
  backward(loss);
  EXPECT_TRUE(w.grad().same_memory(grad));
  EXPECT_LT(device->pool().stats().high_water - before, 256 * 256 * 4);
}

TEST_F(Backward, leaves_never_share_a_gradient) {
  Tensor a = random({8}, 1).set_requires_grad(), b = random({8}, 2).set_requires_grad();
  const Tensor dy = full(*device, {8}, 1.0);
  backward(add(a, b), dy);
  EXPECT_FALSE(a.grad().same_memory(b.grad()));
  EXPECT_FALSE(a.grad().same_memory(dy));
  backward(scale(a, 1.0f), dy);
  EXPECT_EQ(a.grad().to_host<float>(), std::vector<float>(8, 2.0f));
  EXPECT_EQ(b.grad().to_host<float>(), std::vector<float>(8, 1.0f));
  EXPECT_EQ(dy.to_host<float>(), std::vector<float>(8, 1.0f));
}

// Several users of one input: their gradients are summed in one fixed order.
TEST_F(Backward, gradients_of_several_matmuls_of_one_input) {
  Tensor x = random({9, 16}, 1).set_requires_grad();
  const Tensor u = random({16, 16}, 2), w = random({16, 16}, 3), dy = random({9, 16}, 4);
  const Tensor h = scale(x, 1.0f);
  backward(add(add(matmul(h, u), matmul(h, w)), h), dy);
  const NoGrad no_grad;
  const std::vector<float> expected =
      add(add(dy, matmul(dy, w, {.transpose_b = true})), matmul(dy, u, {.transpose_b = true})).to_host<float>();
  const std::vector<float> got = x.grad().to_host<float>();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
}

class Recompute : public Backward, public testing::WithParamInterface<DType> {
 protected:
  // Two blocks with weights inside, dropout, an input read twice and two results.
  std::vector<Tensor> gradients(bool again) {
    Tensor x = random({6, 32}, 1, GetParam()).set_requires_grad(), w = random({32, 32}, 2, GetParam()).set_requires_grad();
    Tensor g = random({32}, 3, GetParam()).set_requires_grad();
    const Tensor state = random_state(*device, 5);
    std::vector<Tensor> stream{x, Tensor()};
    for (uint32_t layer : {0u, 1u}) {
      const RecomputedFunction block = [=](const std::vector<Tensor>& in) {
        const auto [h, y] = rms_norm_residual(in[1] ? in[1] : in[0], in[0], g, 1e-5f);
        const Tensor z = add(matmul(y, w), matmul(y, w, {.transpose_b = true}));
        return std::vector<Tensor>{h, dropout(z, 0.25f, state, layer)};
      };
      stream = again ? recompute(block, stream) : block(stream);
    }
    backward(add(stream[0], stream[1]), random({6, 32}, 4, GetParam()));
    return {x.grad(), w.grad(), g.grad()};
  }
};

TEST_P(Recompute, gives_the_same_bits) {
  const std::vector<Tensor> plain = gradients(false), again = gradients(true);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(plain[i].to_host<float>(), again[i].to_host<float>()) << i;
}
INSTANTIATE_TEST_SUITE_P(dtypes, Recompute, testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_F(Backward, recompute_saves_only_the_inputs) {
  constexpr int64_t kBytes = 1 << 20;
  Tensor x = random({kBytes / 4}, 1).set_requires_grad();
  const RecomputedFunction block = [](const std::vector<Tensor>& in) {
    static const auto bend = fuse([](Expr v) { return tanh(v); });
    return std::vector<Tensor>{bend(bend(bend(in[0])))};
  };
  const int64_t before = in_use();
  const Tensor y = recompute(block, recompute(block, {x}))[0];
  EXPECT_LE(in_use() - before, 2 * kBytes + kBytes / 8);  // y and the activations between the blocks
}

class LinearCrossEntropy : public Backward {
 protected:
  struct Result {
    float loss;
    std::vector<float> dx, dw;
  };
  Result run(bool fused, int64_t rows, int64_t C, int64_t V, DType dtype, const CrossEntropyOptions& options) {
    Tensor x = random({rows, C}, 1, dtype).set_requires_grad(), w = random({V, C}, 2, dtype).set_requires_grad();
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < rows; ++i) ids.push_back(int32_t(i * 7919 % V));
    const Tensor targets = Tensor::from_host(*device, {rows}, ids);
    const Tensor loss = fused ? linear_cross_entropy(x, w, targets, options)
                              : cross_entropy(matmul(x, w, {.transpose_b = true, .out_dtype = DType::f32}), targets, options);
    backward(scale(loss, 0.5f));
    return {loss.item<float>(), x.grad().to_host<float>(), w.grad().to_host<float>()};
  }
  static void expect_near(const std::vector<float>& a, const std::vector<float>& b, double relative) {
    double worst = 0, largest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, std::abs(double(a[i]) - b[i]));
      largest = std::max(largest, std::abs(double(b[i])));
    }
    EXPECT_LE(worst, relative * largest);
  }
};

TEST_F(LinearCrossEntropy, equals_matmul_and_cross_entropy) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t pad : {int64_t(-1), int64_t(3)}) {
      const Result fused = run(true, 37, 24, 101, dtype, {.pad_id = pad}), plain = run(false, 37, 24, 101, dtype, {.pad_id = pad});
      EXPECT_NEAR(fused.loss, plain.loss, 1e-6 * std::abs(plain.loss));
      expect_near(fused.dx, plain.dx, dtype == DType::f32 ? 1e-6 : 0x1p-7);
      expect_near(fused.dw, plain.dw, dtype == DType::f32 ? 1e-6 : 0x1p-7);
    }
}

TEST_F(LinearCrossEntropy, never_holds_all_logits) {
  constexpr int64_t kRows = 700, kVocab = 50000, kWidth = 8;
  ASSERT_LT(linear_cross_entropy_chunk(*device, kRows, kVocab), kRows / 2);
  device->pool().reset_high_water();
  const int64_t before = in_use();
  const Result fused = run(true, kRows, kWidth, kVocab, DType::f32, {});
  EXPECT_LT(device->pool().stats().high_water - before, kRows * kVocab * 4);
  const Result plain = run(false, kRows, kWidth, kVocab, DType::f32, {});
  EXPECT_NEAR(fused.loss, plain.loss, 1e-6 * plain.loss);
  expect_near(fused.dx, plain.dx, 1e-6);
  EXPECT_EQ(fused.dw, plain.dw);  // one chain over all rows (and halving is exact)
}

TEST_F(LinearCrossEntropy, accumulates_into_a_tied_weight) {
  Tensor w = random({50, 16}, 1).set_requires_grad();
  const Tensor ids = Tensor::from_host(*device, {5}, std::vector<int32_t>{3, 1, 4, 1, 5});
  backward(linear_cross_entropy(embedding(w, ids), w, ids));
  const std::vector<float> once = w.grad().to_host<float>();
  backward(linear_cross_entropy(embedding(w, ids), w, ids));
  const std::vector<float> twice = w.grad().to_host<float>();
  for (size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[i], 1e-6);
  backward(linear_cross_entropy(random({0, 16}, 2), w, Tensor::empty(*device, {0}, DType::i32)));
  EXPECT_EQ(w.grad().to_host<float>(), twice);
}

TEST_F(LinearCrossEntropy, rejects_mismatched_shapes) {
  const Tensor x = random({4, 8}, 1), w = random({10, 8}, 2), ids = zeros(*device, {4}, DType::i32);
  EXPECT_THROW(linear_cross_entropy(x, random({10, 7}, 2), ids), Error);
  EXPECT_THROW(linear_cross_entropy(x, w, zeros(*device, {3}, DType::i32)), Error);
  EXPECT_THROW(linear_cross_entropy(x, cast(w, DType::bf16), ids), Error);
  EXPECT_THROW(linear_cross_entropy(x, w, full(*device, {4}, 10, DType::i32)), Error);
}

}  // namespace
}  // namespace weft
