#include "weft/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/generate/generator.h"
#include "weft/nn/kv_cache.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"
#include "weft/train/phase.h"
#include "weft/train/step.h"
#include "weft/train/task.h"

namespace weft {
namespace {

// Sums answered as one batch. Each takes at least one page of the KV cache (kPagePositions positions): with the shape of GPT-2 124M in
// bf16, 64 sums take 144 MiB, and 512 would take 1.1 GiB.
constexpr int64_t kSumsAtOnce = 64;

// The most likely id of each row, the lowest of several.
std::vector<int32_t> most_likely(const Tensor& logits) {
  const int64_t rows = logits.shape()[0], V = logits.shape()[1];
  const std::vector<float> values = logits.to_host<float>();
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = values.begin() + r * V;
    ids.push_back(int32_t(std::max_element(row, row + V) - row));
  }
  return ids;
}

std::vector<int32_t> continue_greedily(const Model& model, std::span<const int32_t> prompts, int64_t rows, int64_t tokens, int64_t count) {
  KvCache cache = model.make_cache(rows, tokens + count);
  std::vector<int32_t> out(size_t(rows * count));
  std::vector<int32_t> next = most_likely(model.last_logits(Tensor::from_host(model.device(), {rows, tokens}, prompts), cache));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t r = 0; r < rows; ++r) out[size_t(r * count + i)] = next[size_t(r)];
    if (i + 1 < count) next = most_likely(model.last_logits(Tensor::from_host(model.device(), {rows, 1}, next), cache));
  }
  return out;
}

// The length of the first document of a sequence, without padding.
int64_t first_document(const TokenBatch& sequence) {
  const int64_t end = sequence.documents.size() > 1 ? sequence.documents[1] : sequence.tokens;
  const auto last = std::find_if(sequence.targets.rbegin(), sequence.targets.rend(), [](int32_t target) { return target != kIgnored; });
  return std::min<int64_t>(end, sequence.targets.rend() - last);
}

struct SequenceLoss {
  double loss = 0, targets = 0;
};

SequenceLoss loss_of(const Model& model, const TokenBatch& sequence, const Tensor& one) {
  LossOptions options{.pad_id = kIgnored, .count = one};
  options.documents = sequence.upload_documents(model.device());
  const Tensor loss = model.loss(sequence.upload_ids(model.device()), sequence.upload_targets(model.device()), options);
  return {loss.item<float>(), double(sequence.counted())};
}

// Element i of the result is element i / ranks of rank i % ranks.
std::vector<SequenceLoss> dealt(Communicator& ranks, const std::vector<SequenceLoss>& own, int64_t count) {
  std::vector<std::string> parts =
      ranks.all_gather(std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(SequenceLoss)));
  std::vector<SequenceLoss> all;
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(&all.emplace_back(), parts[size_t(i % ranks.size())].data() + size_t(i / ranks.size()) * sizeof(SequenceLoss),
                sizeof(SequenceLoss));
  return all;
}

std::vector<int32_t> fitting(std::vector<int32_t> prompt, const TrainingProblem& problem) {
  check(!prompt.empty() && int64_t(prompt.size()) < problem.model.max_positions, "train", "prompt has ", prompt.size(),
        " tokens, expected 1 or more and fewer than the model's context of ", problem.model.max_positions);
  return prompt;
}

}  // namespace

double validation_loss(const Model& model, const Dataset& data, int64_t sequences, const Agreement& ranks) {
  const Phase phase(model.device());
  const int64_t count = sequences > 0 ? std::min(sequences, data.validation_sequences()) : data.validation_sequences();
  if (count == 0) return NAN;
  std::vector<SequenceLoss> own;
  ranks.all([&] {
    const NoGrad no_grad;
    const Tensor one = full(model.device(), {}, 1);
    for (int64_t i = ranks.communicator().rank(); i < count; i += ranks.communicator().size()) {
      report_progress({.what = "evaluating", .done = i, .total = count});
      own.push_back(loss_of(model, data.validation_sequence(i), one));
    }
    report_progress({.what = "evaluating", .done = count, .total = count});
  });
  double sum = 0, targets = 0;
  for (const SequenceLoss& each : dealt(ranks.communicator(), own, count)) {
    sum += each.loss;
    targets += each.targets;
  }
  return sum / targets;
}

EvaluationRecord evaluation(const Model& model, const TrainingProblem& problem, int64_t sequences, int64_t step, const Agreement& ranks) {
  EvaluationRecord record{step, validation_loss(model, *problem.data, sequences, ranks), std::nullopt};
  if (problem.sums) record.accuracy = sums_accuracy(model, *problem.sums, ranks);
  return record;
}

double sums_accuracy(const Model& model, const SumsDataset& sums, const Agreement& ranks) {
  const Phase phase(model.device());
  const auto decode = [&](std::span<const int32_t> prompts, int64_t rows, int64_t tokens, int64_t count) {
    return continue_greedily(model, prompts, rows, tokens, count);
  };
  int64_t own = 0, right = 0;
  ranks.all([&] { own = right_answers(sums, decode, ranks.communicator().rank(), ranks.communicator().size(), kSumsAtOnce); });
  for (int64_t each : ranks.communicator().all_gather_values(own)) right += each;
  return double(right) / double(sums.held_out().size());
}

std::vector<std::vector<int32_t>> sample_prompts(const TrainConfig& config, const TrainingProblem& problem) {
  if (config.sample_tokens == 0) return {};
  if (problem.chat) {
    std::vector<int32_t> prompt = conversation_prompt(config, problem);
    if (config.prompt.empty() && int64_t(prompt.size()) >= problem.model.max_positions) return {};  // it leaves no room for an answer
    return {fitting(std::move(prompt), problem)};
  }
  std::vector<std::string> prompts;
  if (!config.prompt.empty())
    prompts = {config.prompt};
  else if (problem.sums)
    for (size_t i = 0; i < 3; ++i) prompts.push_back(problem.sums->question(problem.sums->held_out()[i * 7]));
  std::vector<std::vector<int32_t>> ids;
  for (const std::string& prompt : prompts) {
    problem.vocabulary->append_beginning(/*first=*/true, ids.emplace_back(), "prompt");
    problem.vocabulary->encode(prompt, ids.back(), "prompt");
    fitting(ids.back(), problem);
  }
  if (ids.empty() && problem.data->validation_sequences() > 0) {
    const TokenBatch sequence = problem.data->validation_sequence(0);
    const int64_t most = std::min<int64_t>(32, problem.model.max_positions - 1);
    if (most > 0) ids.emplace_back(sequence.ids.begin(), sequence.ids.begin() + std::clamp<int64_t>(first_document(sequence) / 2, 1, most));
  }
  return ids;
}

SampleOptions sample_options(const TrainConfig& config, const TrainingProblem& problem) {
  if (problem.sums) return {.tokens = problem.sums->answer_length() - 1, .temperature = 0, .seed = uint64_t(config.seed)};
  SampleOptions options{.tokens = config.sample_tokens, .temperature = 0.8, .seed = uint64_t(config.seed)};
  if (problem.chat) {
    options.end_ids.assign(problem.model.eos_ids.begin(), problem.model.eos_ids.end());
  } else if (const auto end = problem.vocabulary->end_of_text(); end && packing_of(config) != Packing::concatenate) {
    options.end_ids = {*end};  // no document goes on after it
  }
  return options;
}

std::string sample_text(const Model& model, const Vocabulary& vocabulary, const std::vector<int32_t>& prompt,
                        const SampleOptions& options) {
  const Phase phase(model.device());
  const int64_t room = model.config().max_positions - int64_t(prompt.size());
  GenerateOptions generate{.sampling = {.temperature = options.temperature, .seed = options.seed},
                           .max_tokens = std::min(options.tokens, room),
                           .eos_ids = options.end_ids};
  Generator generator(model, generate);
  return vocabulary.decode(generator.run({prompt}).at(0).ids);
}

}  // namespace weft
