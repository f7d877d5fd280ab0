#include <cstdio>
#include <weft/weft.h>
using namespace weft;

int main() {
  const auto device = open_device("cpu");
  const Tensor x = Tensor::from_host(*device, {6, 16}, normal_values(6 * 16, /*seed=*/1, /*deviation=*/1.0));
  const Tensor targets = Tensor::from_host(*device, {6}, std::vector<int32_t>{0, 1, 2, 0, 1, 2});
  const Tensor w = Tensor::from_host(*device, {16, 3}, normal_values(16 * 3, /*seed=*/2, /*deviation=*/0.1)).set_requires_grad();
  const Tensor m = zeros(*device, w.shape()), v = zeros(*device, w.shape()), lr = full(*device, {1}, 0.1);

  for (int32_t t = 1; t <= 30; ++t) {
    const Tensor step = full(*device, {1}, t, DType::i32);
    const Tensor loss = cross_entropy(matmul(x, w), targets);  // a device scalar
    backward(loss);
    adamw(device->stream(), {.tensors = {{w.mut_view(), w.grad().view(), m.mut_view(), v.mut_view(), {}, /*weight_decay=*/0.01f}},
                             .lr = lr.view(),
                             .step = step.view(),
                             .grad_scale = {},
                             .beta1 = 0.9,
                             .beta2 = 0.999,
                             .eps = 1e-8});
    w.clear_grad();
    if (t % 10 == 0) std::printf("step %d  loss %.4f\n", t, loss.item<float>());
  }
}
