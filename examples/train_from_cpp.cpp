// A whole training loop: a small Llama learns sums, and answers some it has never seen.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <weft/weft.h>
using namespace weft;

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 900;
  const auto device = open_device("cpu");
  const SumsDataset data({.digits = 2});

  ModelConfig config = preset("llama-tiny");
  config.vocab_size = data.vocabulary().size();
  const auto model = make_model(config, *device, /*seed=*/0, {.trainable = true});

  Optimizer optimizer(*device, model->parameters(), {.kind = OptimizerKind::adamw, .weight_decay = 0.1});
  TrainingStep training(*model, optimizer, {.clip = 1.0});
  const Schedule schedule{.kind = ScheduleKind::cosine, .peak = 4e-3, .steps = steps, .warmup = std::min<int64_t>(50, steps)};

  for (int64_t step = 1, position = 0; step <= steps; ++step) {
    std::vector<Unit> units;
    for (int i = 0; i < 4; ++i) units.push_back(data.training_unit(position++));
    const StepResult result = training.gradients(units);
    training.apply(learning_rate(schedule, step));
    if (step % 100 == 0 || step == steps)
      std::printf("step %lld  loss %.4f  gradient norm %.3f\n", (long long)step, result.loss, result.gradient_norm);
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
