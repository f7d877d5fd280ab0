// fuse on tensors: shapes, dtypes, gradients, in place, the cache. The op's spec checks what the kernels compute.
#include "weft/ops/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "weft/backends/open.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

class Elementwise : public testing::Test {
 protected:
  Tensor tensor(const Shape& shape, const std::vector<float>& values) { return Tensor::from_host<float>(*device_, shape, values); }
  Tensor wanting(const Shape& shape, const std::vector<float>& values) { return tensor(shape, values).set_requires_grad(); }
  // The gradients of the op that made y, given dy.
  static std::vector<Tensor> back(const Tensor& y, std::vector<Tensor> grads) {
    Upstream up{std::move(grads), {}};
    for (const auto& input : y.node()->inputs) up.wanted.push_back(input != nullptr);
    const NoGrad no_grad;
    return y.node()->backward(up);
  }

  std::shared_ptr<Device> device_ = open_device("cpu", {.checked = true});
};

using Values = std::vector<float>;

TEST_F(Elementwise, OneOutputOfOneShape) {
  const auto f = fuse([](Expr a, Expr b) { return a * b + 1.0f; });
  EXPECT_EQ(f(tensor({3}, {1, 2, 3}), tensor({3}, {4, 5, 6})).to_host<float>(), (Values{5, 11, 19}));
}

TEST_F(Elementwise, BroadcastsBothWays) {
  const auto f = fuse([](Expr a, Expr b) { return a + b; });
  const Tensor y = f(tensor({2, 1}, {10, 20}), tensor({3}, {1, 2, 3}));
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_EQ(y.to_host<float>(), (Values{11, 12, 13, 21, 22, 23}));
}

TEST_F(Elementwise, ReadsTransposedInputs) {
  const auto f = fuse([](Expr a) { return a * 2.0f; });
  EXPECT_EQ(f(tensor({2, 2}, {1, 2, 3, 4}).permute({1, 0})).to_host<float>(), (Values{2, 6, 4, 8}));
}

TEST_F(Elementwise, EmptyTensors) {
  const auto f = fuse([](Expr a, Expr b) { return a + b; });
  EXPECT_EQ(f(tensor({0, 3}, {}), tensor({3}, {1, 2, 3})).shape(), (Shape{0, 3}));
}

TEST_F(Elementwise, DtypeOfTheFirstFullInputOrAsRequested) {
  const auto f = fuse([](Expr bias, Expr x) { return x + bias; });
  const Tensor bias = tensor({2}, {1, 2}), x = Tensor::from_host<bf16>(*device_, {2, 2}, std::vector<bf16>(4, bf16(0.5f)));
  EXPECT_EQ(f(bias, x).dtype(), DType::bf16);
  const Tensor wide = f.as(DType::f32)(bias, x);
  EXPECT_EQ(wide.to_host<float>(), (Values{1.5, 2.5, 1.5, 2.5}));
}

TEST_F(Elementwise, ParametersChangePerCall) {
  const auto f = fuse([](Expr w, Expr g, Param lr) { return w - lr * g; });
  const Tensor w = tensor({2}, {1, 2}), g = tensor({2}, {10, 20});
  EXPECT_EQ(f(w, g, 0.5f).to_host<float>(), (Values{-4, -8}));
  EXPECT_EQ(f(w, g, 0).to_host<float>(), (Values{1, 2}));
}

TEST_F(Elementwise, GradientOfEachInput) {
  const auto f = fuse([](Expr a, Expr b) { return a * a * b; });
  const Tensor a = wanting({2}, {3, 5}), b = wanting({2}, {2, 7}), y = f(a, b);
  const auto grads = back(y, {tensor({2}, {1, 10})});
  EXPECT_EQ(grads[0].to_host<float>(), (Values{12, 700}));
  EXPECT_EQ(grads[1].to_host<float>(), (Values{9, 250}));
}

TEST_F(Elementwise, GradientOnlyWhereWanted) {
  const auto f = fuse([](Expr a, Expr b) { return a * b; });
  const Tensor a = wanting({2}, {3, 5}), y = f(a, tensor({2}, {2, 7}));
  const auto grads = back(y, {tensor({2}, {1, 10})});
  EXPECT_EQ(grads[0].to_host<float>(), (Values{2, 70}));
  EXPECT_FALSE(grads[1].defined());
  EXPECT_FALSE(f(tensor({1}, {1}), tensor({1}, {1})).requires_grad());
  const NoGrad no_grad;
  EXPECT_FALSE(f(a, a).requires_grad());
}

TEST_F(Elementwise, GradientsOfRepeatedInputsAreSums) {
  const auto f = fuse([](Expr x, Expr row, Expr column, Expr scalar) { return x * row + column * scalar; });
  const Tensor x = wanting({2, 3}, {1, 2, 3, 4, 5, 6}), row = wanting({3}, {1, 1, 2}), column = wanting({2, 1}, {3, 4}),
               scalar = wanting({}, {5});
  const auto grads = back(f(x, row, column, scalar), {tensor({2, 3}, {1, 10, 100, 2, 20, 200})});
  EXPECT_EQ(grads[0].to_host<float>(), (Values{1, 10, 200, 2, 20, 400}));
  EXPECT_EQ(grads[1].to_host<float>(), (Values{9, 120, 1500}));
  EXPECT_EQ(grads[2].shape(), (Shape{2, 1}));
  EXPECT_EQ(grads[2].to_host<float>(), (Values{555, 1110}));
  EXPECT_EQ(grads[3].shape(), Shape{});
  EXPECT_EQ(grads[3].to_host<float>(), (Values{3 * 111 + 4 * 222}));
}

TEST_F(Elementwise, GradientHasTheInputsDtype) {
  const auto f = fuse([](Expr x, Expr b) { return x + b; });
  Tensor x = Tensor::from_host<bf16>(*device_, {2, 2}, std::vector<bf16>(4, bf16(1.0f))),
         b = Tensor::from_host<bf16>(*device_, {2}, std::vector<bf16>(2, bf16(1.0f)));
  x.set_requires_grad(), b.set_requires_grad();
  const auto grads = back(f(x, b), {Tensor::from_host<bf16>(*device_, {2, 2}, std::vector<bf16>(4, bf16(3.0f)))});
  EXPECT_EQ(grads[0].dtype(), DType::bf16);
  EXPECT_EQ(grads[1].dtype(), DType::bf16);
  EXPECT_EQ(float(grads[1].to_host<bf16>()[0]), 6.0f);
}

TEST_F(Elementwise, AnOutputWithoutGradientCountsAsZero) {
  const auto f = fuse([](Expr a) { return std::array{a * a, exp(a)}; });
  const Tensor a = wanting({1}, {3});
  const auto [square, e] = f(a);
  EXPECT_EQ(back(square, {tensor({1}, {2}), Tensor()})[0].to_host<float>(), (Values{12}));
  EXPECT_NEAR(back(e, {Tensor(), tensor({1}, {2})})[0].item<float>(), 2 * std::exp(3.0), 1e-4);
}

TEST_F(Elementwise, GradientThatComesBackTransposed) {
  const auto f = fuse([](Expr a) { return 2.0f * a; });
  const Tensor y = f(wanting({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(back(y, {tensor({2, 2}, {1, 2, 3, 4}).permute({1, 0})})[0].to_host<float>(), (Values{2, 6, 4, 8}));
}

TEST_F(Elementwise, SavesOnlyWhatTheDerivativeReads) {
  const auto add = fuse([](Expr a, Expr b) { return a + 2.0f * b; });
  Tensor a = wanting({1 << 20}, Values(1 << 20));
  const int64_t before = device_->memory().in_use;
  Tensor y = add(a, tensor({1 << 20}, Values(1 << 20)));
  EXPECT_LT(device_->memory().in_use - before, 5 << 20) << "the second input should be gone: only y stays";
}

TEST_F(Elementwise, InPlace) {
  const auto swap = fuse([](Expr a, Expr b) { return std::pair{b, a + b}; });
  const Tensor a = tensor({3}, {1, 2, 3}), b = tensor({3}, {10, 20, 30});
  swap.into({a, b}, a, b);
  EXPECT_EQ(a.to_host<float>(), (Values{10, 20, 30}));
  EXPECT_EQ(b.to_host<float>(), (Values{11, 22, 33}));
}

TEST_F(Elementwise, IntoColumnsSideBySide) {
  const auto f = fuse([](Expr a) { return std::pair{a + 1.0f, a * 2.0f}; });
  const Tensor both = tensor({2, 4}, Values(8));
  f.into({both.part(-1, 0, 2), both.part(-1, 2, 4)}, tensor({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(both.to_host<float>(), (Values{2, 3, 2, 4, 4, 5, 6, 8}));
}

TEST_F(Elementwise, ColumnsOfAWiderTensor) {
  const auto f = fuse([](Expr a, Expr b) { return a + b; });
  const Tensor wide = tensor({3, 2}, {1, 2, 3, 4, 5, 6}), column = wide.part(-1, 0, 1);
  EXPECT_EQ(f(column, tensor({}, {10})).to_host<float>(), (Values{11, 13, 15}));
  f.into(column, column, tensor({3, 1}, {10, 20, 30}));
  EXPECT_EQ(wide.to_host<float>(), (Values{11, 2, 23, 4, 35, 6}));
}

TEST_F(Elementwise, IntoReadsTransposedInputs) {
  const auto f = fuse([](Expr a, Expr b) { return a + b; });
  const Tensor y = tensor({2, 2}, {1, 2, 3, 4});
  f.into(y, y, y.permute({1, 0}));
  EXPECT_EQ(y.to_host<float>(), (Values{2, 5, 5, 8}));
}

// A launch larger than the caches uses non-temporal stores: the bits equal those of small launches.
TEST_F(Elementwise, LargeLaunchesGiveTheBitsOfSmallOnes) {
  const auto f = fuse([](Expr a, Expr b) { return std::pair{silu(a) * b, exp(a) - b}; });
  const int64_t n = (int64_t(1) << 22) + 37, piece = int64_t(1) << 20;
  Values values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 9973) * 0.001f - 5;
  const Tensor a = tensor({n}, values), b = tensor({n}, Values(values.rbegin(), values.rend()));
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const auto whole = f.as(dtype)(a, b);
    const std::array parts{Tensor::empty(*device_, {n}, dtype), Tensor::empty(*device_, {n}, dtype)};
    for (int64_t at = 0; at < n; at += piece) {
      const auto cut = [&](const Tensor& t) { return t.part(0, at, std::min(n, at + piece)); };
      f.into({cut(parts[0]), cut(parts[1])}, cut(a), cut(b));
    }
    for (size_t j = 0; j < 2; ++j) {
      std::vector<char> large(size_t(n * size_of(dtype))), small(large.size());
      device_->download(large.data(), *whole[j].view().buffer, 0, int64_t(large.size()));
      device_->download(small.data(), *parts[j].view().buffer, 0, int64_t(small.size()));
      EXPECT_EQ(large, small) << "output " << j << ", " << dtype;
    }
  }
}

TEST_F(Elementwise, ErrorsNameTheValues) {
  const auto f = fuse([](Expr a, Expr b) { return a * b; });
  const auto message = [&](const Tensor& a, const Tensor& b) -> std::string {
    try {
      f(a, b);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const Tensor a = tensor({2, 3}, Values(6));
  EXPECT_NE(message(a, tensor({4}, Values(4))).find("shapes 2x3 and 4 do not broadcast"), std::string::npos);
  EXPECT_NE(message(a, Tensor()).find("input 1 is missing"), std::string::npos);
  EXPECT_NE(message(a, Tensor::empty(*device_, {3}, DType::i32)).find("input 1 is i32"), std::string::npos);
  const auto other = open_device("cpu", {.threads = 1});
  EXPECT_NE(message(a, Tensor::from_host<float>(*other, {3}, Values(3))).find("input 1 is on another device"), std::string::npos);
}

TEST_F(Elementwise, LongChains) {
  const auto f = fuse([](Expr a) {
    for (int i = 0; i < 3000; ++i) a = abs(a) + 1.0f;
    return a;
  });
  EXPECT_EQ(f(tensor({1}, {0.5f})).item<float>(), 3000.5f);
}

TEST_F(Elementwise, EqualLambdasAreOneFunction) {
  const auto f = fuse([](Expr a, Expr b) { return silu(a) * b; });
  const auto g = fuse([](Expr gate, Expr up) { return silu(gate) * up; });
  EXPECT_EQ(&f.function(), &g.function());
  const auto h = fuse([](Expr a, Expr b) { return silu(b) * a; });
  EXPECT_NE(&f.function(), &h.function());
}

TEST_F(Elementwise, FusedFromManyThreadsConcurrently) {
  std::vector<std::thread> threads;
  std::vector<float> results(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      const auto device = open_device("cpu", {.threads = 1});
      for (int i = 0; i < 50; ++i) {
        const auto f = fuse([i](Expr a) { return a * float(i) + 1.0f; });
        results[size_t(t)] += f(Tensor::from_host<float>(*device, {1}, Values{2})).item<float>();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, Values(8, 2 * 1225 + 50));
}

// Functions beyond the cache's capacity evict the least recently used; a handle keeps its function alive.
TEST_F(Elementwise, TheCacheIsBounded) {
  const auto number = [](int i) { return expr::trace([i](Expr a) { return a + float(1000 + i); }); };
  const auto used_often = fuse([](Expr a) { return a - 31.0f; });
  const std::weak_ptr<const ElementwiseFunction> dropped = elementwise_function(number(0)), held = used_often.function().weak_from_this();
  const auto f = fuse([](Expr a) { return a * 33.0f; });
  for (int i = 1; i <= int(kElementwiseFunctions); ++i) {
    elementwise_function(number(i));
    elementwise_function(expr::trace([](Expr a) { return a - 31.0f; }));
  }
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(elementwise_function(expr::trace([](Expr a) { return a - 31.0f; })), held.lock());
  EXPECT_NE(elementwise_function(expr::trace([](Expr a) { return a * 33.0f; })).get(), &f.function());  // a new one
  EXPECT_EQ(f(tensor({2}, {1, 2})).to_host<float>(), (Values{33, 66}));                                 // the old one still runs
}

TEST(Program, AChainNeverLeavesTheAccumulator) {
  const expr::Graph g = expr::trace([](Expr x) { return exp(sqrt(abs(sin(x)) + 1.0f)) * 3.0f; });
  const expr::Source source[] = {expr::Source::f32};
  const expr::Program p = expr::compile(g, source);
  EXPECT_EQ(p.slots, 0);
  EXPECT_EQ(p.code.size(), 7u);  // six ops and the store
}

TEST(Program, SlotsAreReused) {
  const expr::Graph g = expr::trace([](Expr x) {
    for (int i = 0; i < 20; ++i) x = exp(x) * sin(x);
    return x;
  });
  const expr::Source source[] = {expr::Source::f32};
  EXPECT_LE(expr::compile(g, source).slots, 2);
}

TEST(Program, SixteenBitInputsAreWidenedOnce) {
  const expr::Graph g = expr::trace([](Expr x) { return exp(x) * x; });
  const expr::Source source[] = {expr::Source::bf16};
  int loads = 0;
  for (const expr::Instruction& i : expr::compile(g, source).code) loads += i.action == expr::Action::load_bf16;
  EXPECT_EQ(loads, 1);
}

}  // namespace
}  // namespace weft
