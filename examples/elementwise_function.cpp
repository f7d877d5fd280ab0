// An elementwise function of your own: written once as a lambda, it is one kernel on every device, and its gradient another.
#include <cstdio>

#include "weft/weft.h"

using namespace weft;

int main() {
  const auto device = open_device("cpu");
  // A gated activation that the library does not have. fuse() traces the lambda; the gradient is derived symbolically.
  const auto gated = fuse([](Expr gate, Expr value) { return softplus(gate) * tanh(value); });

  // y = gated(x A, x B): A and B are found from examples of y, made with other A and B.
  constexpr int64_t kRows = 256, kIn = 8, kOut = 4;
  const auto normal = [&](const Shape& shape, uint64_t seed) {
    return Tensor::from_host(*device, shape, normal_values(shape.numel(), seed, 0.5));
  };
  const Tensor x = normal({kRows, kIn}, 1), target = gated(matmul(x, normal({kIn, kOut}, 2)), matmul(x, normal({kIn, kOut}, 3)));
  const Tensor a = normal({kIn, kOut}, 4).set_requires_grad(), b = normal({kIn, kOut}, 5).set_requires_grad();

  SGD optimizer({a, b}, {.learning_rate = 0.5, .momentum = 0, .weight_decay = 0});
  float first = 0, last = 0;
  for (int step = 0; step < 400; ++step) {
    const Tensor error = gated(matmul(x, a), matmul(x, b)) - target;
    const Tensor loss = sum_all(error * error) / (kRows * kOut);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    last = loss.item<float>();
    if (step == 0) first = last;
    if (step % 100 == 0) std::printf("step %3d  loss %.6f\n", step, last);
  }
  std::printf("loss %.6f -> %.6f\n", first, last);
  return last < 0.05f * first ? 0 : 1;
}
