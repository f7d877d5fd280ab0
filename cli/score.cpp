// weft score: the log-probabilities of given completions.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "cli/log_probabilities.h"
#include "cli/score_pairs.h"
#include "cli/waiting.h"
#include "cli/weights_flag.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/generate/score.h"

namespace weft::cli {
namespace {

struct Options {
  std::string folder, adapter, data, device = "cpu", dtype;
  WeightsFlag weights;
  int64_t batch = 8;
  ChatFlags chat;
  int threads = 0;
  int64_t context = 0;
  bool json = false;
};

constexpr size_t kTogether = 1024;  // pairs in memory at once

// Scores pairs as they are read and prints them in order.
class Scorer {
 public:
  Scorer(const Options& options, const Model& model, Waiting& waits) : options_(options), model_(model), waits_(waits) {}

  void add(ScoredPair pair, const std::string& where) {
    check_length(pair, where);
    pairs_.push_back(std::move(pair));
    if (pairs_.size() == kTogether) flush();
  }

  void flush() {
    const auto scores = score(model_, pairs_, {.batch = options_.batch});
    waits_.progress.hide();
    for (size_t i = 0; i < pairs_.size(); ++i) options_.json ? print_json(pairs_[i], scores[i]) : print(scores[i]);
    std::fflush(stdout);
    pairs_.clear();
  }

  int64_t count() const { return count_; }
  void print_total() const {
    std::printf("\n%ld pairs, %ld tokens, log-probability %.4f in all, %.4f a token\n", long(count_), long(tokens_), sum_,
                tokens_ ? sum_ / double(tokens_) : 0.0);
  }

 private:
  // score() would name the pair by its number; the file has a line for it.
  void check_length(const ScoredPair& pair, const std::string& where) const {
    const int64_t context = model_.config().max_positions;
    if (int64_t(pair.prompt.size() + pair.completion.size()) - 1 > context)
      fail(ErrorCode::bad_file, where, "has ", pair.prompt.size(), " and ", pair.completion.size(),
           " tokens, which do not fit in the model's context of ", context);
  }

  double add_up(const std::vector<float>& values) {
    const double sum = sum_of(values);
    ++count_;
    tokens_ += int64_t(values.size());
    sum_ += sum;
    return sum;
  }

  void print_json(const ScoredPair& pair, const std::vector<float>& values) {
    std::string line = nlohmann::ordered_json{{"ids", pair.completion}}.dump();
    line = with_member(std::move(line), "logprobs", json_list(values));
    line = with_member(std::move(line), "sum", json_number(add_up(values)));
    std::printf("%s\n", with_member(std::move(line), "count", std::to_string(values.size())).c_str());
  }

  void print(const std::vector<float>& values) {
    const double sum = add_up(values);
    std::printf("[%ld] %ld tokens, log-probability %.4f:", long(count_), long(values.size()), sum);
    for (float value : values) std::printf(" %s", shortest(value).c_str());
    std::printf("\n");
  }

  const Options& options_;
  const Model& model_;
  Waiting& waits_;
  std::vector<ScoredPair> pairs_;
  int64_t count_ = 0, tokens_ = 0;
  double sum_ = 0;
};

int run(const Options& o) {
  check(o.batch >= 1, "score", "--batch is ", o.batch, ", expected 1 or more");
  const auto device = open_device(o.device, {.threads = o.threads});
  const ModelFolder folder(o.folder, o.adapter, o.context);
  folder.config();  // first: its error says what a folder without a model is
  Waiting waits(*device);
  const auto model =
      folder.load(*device, {.dtype = o.dtype.empty() ? std::optional<DType>() : dtype_from_name(o.dtype), .int8 = o.weights.int8()});
  Scorer scorer(o, *model, waits);
  PairReader(folder, o.chat).read(o.data, [&](ScoredPair pair, const std::string& where) { scorer.add(std::move(pair), where); });
  scorer.flush();
  if (scorer.count() == 0) fail(ErrorCode::bad_file, o.data, "has no pairs in it");
  if (!o.json) scorer.print_total();
  return kOk;
}

}  // namespace

Run add_score(CLI::App& app) {
  CLI::App* command = app.add_subcommand("score", "Compute the log-probabilities of given completions");
  command->footer(
      "By the training forward pass, with the bits that generate --logprobs records (docs/numerics.md). Each line of the file is "
      "{\"prompt\", \"completion\"}, both texts or both lists of token ids, a line that generate --json printed, or a conversation "
      "{\"messages\"} whose last message is the completion.");
  auto o = std::make_shared<Options>();
  command->add_option("model", o->folder, "Folder with config.json, model.safetensors and tokenizer.json, or a GGUF file")->required();
  command->add_option("--data", o->data, "File of JSON lines with prompts and completions")->required();
  o->chat.add_to(*command);
  command->add_option("--batch", o->batch, "Pairs scored in one pass; changes no bits")->capture_default_str();
  command->add_option("--adapter", o->adapter, "Folder with a LoRA adapter of the model (adapter_config.json, adapter_model.safetensors)");
  command->add_option("--device", o->device, "Device to run on")->capture_default_str();
  command->add_option("--context", o->context,
                      "Maximum tokens of a sequence (default: the model's context length); dynamic and longrope are computed from it");
  command->add_option("--dtype", o->dtype, "f32 or bf16 (default: as stored)")->check(CLI::IsMember({"f32", "bf16"}));
  o->weights.add_to(*command);
  command->add_option("--threads", o->threads, "CPU threads (default: all this process may use)");
  command->add_flag("--json", o->json,
                    "Print a line {\"ids\", \"logprobs\", \"sum\", \"count\"} for each pair: of the tokens of the completion");
  return [o] { return run(*o); };
}

}  // namespace weft::cli
