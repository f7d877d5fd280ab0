// LoRA: two thin matrices beside some layers learn a sentence; the weights of the folder stay as they are.  lora FOLDER OUT
#include <cstdio>
#include <weft/weft.h>
using namespace weft;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: lora FOLDER OUT\n");
    return 2;
  }
  const std::string base = argv[1], out = argv[2];
  const auto device = open_device("cpu");
  const ModelFolder folder(base);
  const LoraOptions lora{.rank = 4, .scale = 2, .targets = {"q_proj", "v_proj"}};
  const auto model = folder.load(*device, {.dtype = DType::f32, .trainable = true, .lora = lora});

  // Only the adapters require a gradient, so the optimizer keeps state for nothing else.
  AdamW optimizer(model->trainable_parameters(), {.learning_rate = 0.02, .weight_decay = 0});
  int64_t trained = 0;
  for (const Parameter& p : optimizer.parameters()) trained += p.tensor.numel();
  std::printf("%lld of %lld parameters are trained\n", (long long)trained, (long long)(folder.config().parameter_count() + trained));

  // The target of each token is the token after it.
  const std::vector<int32_t> ids = folder.tokenizer().encode_prompt("Low-rank adapters learn what a model should say next.");
  const int64_t T = int64_t(ids.size()) - 1;
  const Tensor inputs = Tensor::from_host(*device, {1, T}, std::vector(ids.begin(), ids.end() - 1));
  const Tensor targets = Tensor::from_host(*device, {1, T}, std::vector(ids.begin() + 1, ids.end()));
  float first = 0, last = 0;
  for (int step = 1; step <= 40; ++step) {
    const Tensor loss = model->loss(inputs, targets);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    last = loss.item<float>();
    if (step == 1) first = last;
  }
  std::printf("loss %.4f -> %.4f\n", first, last);

  save_adapter(*model, out + "/adapter", base);           // what PEFT loads
  export_model(*model, out + "/merged", {.like = base});  // a folder of its own, adapters merged into the weights
  const auto adapted = load_model(base, *device, {}, out + "/adapter"), merged = load_model(out + "/merged", *device);
  std::printf("loaded again: adapter %.4f, merged %.4f\n", adapted->loss(inputs, targets).item<float>(),
              merged->loss(inputs, targets).item<float>());
  return last < 0.95f * first ? 0 : 1;
}
