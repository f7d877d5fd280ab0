// A training loop of your own: a small Llama learns to add, then answers sums it has never seen.  training_loop [STEPS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <weft/weft.h>
using namespace weft;

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 900;
  const auto device = open_device("cpu");
  const SumsDataset data({.digits = 2, .rows = 256});

  ModelConfig config = preset("llama-tiny");
  config.vocab_size = data.vocabulary().size();
  const auto model = make_model(config, *device, /*seed=*/0, {.trainable = true});

  AdamW optimizer(model->trainable_parameters(), {.weight_decay = 0.1});
  const Schedule schedule{.kind = ScheduleKind::cosine, .peak = 4e-3, .steps = steps, .warmup = std::min<int64_t>(50, steps)};

  for (int64_t step = 1; step <= steps; ++step) {
    const TokenBatch batch = data.training_sequence(step - 1);
    // Targets before "=" are kIgnored: the model is trained on answers, not on questions.
    const Tensor loss = model->loss(batch.upload_ids(*device), batch.upload_targets(*device), {.pad_id = kIgnored});
    loss.backward();
    const GradientNorm norm = optimizer.gradient_norm(/*max_norm=*/1);
    optimizer.set_learning_rate(learning_rate(schedule, step));
    optimizer.step(norm.clip);  // a device scalar: nothing waits for the GPU
    optimizer.zero_grad();
    if (step % 100 == 0 || step == steps)
      std::printf("step %lld  loss %.4f  gradient norm %.3f\n", (long long)step, loss.item<float>(), norm.norm.item<float>());
  }

  std::printf("%.1f %% of %zu unseen sums right\n", 100 * sums_accuracy(*model, data), data.held_out().size());
  for (size_t i = 0; i < 3; ++i) {
    const std::string question = data.question(data.held_out()[i]);
    std::vector<int32_t> prompt;
    data.vocabulary().encode(question, prompt, "question");
    std::printf("%s%s", question.c_str(),
                sample_text(*model, data.vocabulary(), prompt, {.tokens = data.answer_length(), .temperature = 0}).c_str());
  }
}
