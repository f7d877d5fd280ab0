// An activation of your own, as fast as one that is built in: write it once, train a layer with it, run it.
#include <cstdio>

#include "weft/weft.h"

using namespace weft;

int main() {
  const auto device = open_device("cpu");
  // A gated unit that the library does not have. One kernel forwards; its gradient is derived, and is one kernel too.
  const auto gated = fuse([](Expr gate, Expr value) { return softplus(gate) * tanh(value); });

  // y = gated(x A, x B): find A and B so that y is a function that is known.
  constexpr int64_t kRows = 256, kIn = 8, kOut = 4;
  const auto normal = [&](const Shape& shape, uint64_t seed) {
    return Tensor::from_host(*device, shape, normal_values(shape.numel(), seed, 0.5));
  };
  const Tensor x = normal({kRows, kIn}, 1), target = gated(matmul(x, normal({kIn, kOut}, 2)), matmul(x, normal({kIn, kOut}, 3)));
  Tensor a = normal({kIn, kOut}, 4).set_requires_grad(), b = normal({kIn, kOut}, 5).set_requires_grad();

  const auto difference = fuse([](Expr y, Expr t) { return y - t; });
  const auto step = fuse([](Expr w, Expr g, Param rate) { return w - rate * g; });
  float first = 0, last = 0;
  for (int i = 0; i < 400; ++i) {
    const Tensor error = difference(gated(matmul(x, a), matmul(x, b)), target);
    const Tensor loss = scale(sum_all(reduce_sum_squares(error, 1)), 1.0f / (kRows * kOut));
    backward(loss);
    for (const Tensor& w : {a, b}) {
      step.into(w.detach(), w.detach(), w.grad(), 0.5f);
      w.clear_grad();
    }
    last = loss.item<float>();
    if (i == 0) first = last;
    if (i % 100 == 0) std::printf("step %3d  loss %.6f\n", i, last);
  }
  std::printf("loss %.6f -> %.6f\n", first, last);
  return last < 0.05f * first ? 0 : 1;
}
