#include <cstdio>
#include <weft/weft.h>
using namespace weft;

int main() {
  const auto device = open_device("cpu");
  const Tensor x = Tensor::from_host(*device, {6, 16}, normal_values(6 * 16, /*seed=*/1));
  const Tensor targets = Tensor::from_host(*device, {6}, std::vector<int32_t>{0, 1, 2, 0, 1, 2});
  const Linear layer(*device, 16, 3);
  AdamW optimizer(layer.parameters(), {.learning_rate = 0.1});

  for (int step = 1; step <= 30; ++step) {
    const Tensor loss = cross_entropy(layer(x), targets);
    loss.backward();        // adds to the gradients
    optimizer.step();       // updates the weights
    optimizer.zero_grad();  // or the next backward() adds to these gradients
    if (step % 10 == 0) std::printf("step %d  loss %.4f\n", step, loss.item<float>());
  }
}
