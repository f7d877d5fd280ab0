// weft eval: computes the loss and perplexity of a model on a text, or its scores on tasks.
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/eval_tasks.h"
#include "cli/notice.h"
#include "cli/weights_flag.h"
#include "weft/backends/open.h"
#include "weft/device/launch_progress.h"
#include "weft/io/tokenizer/utf8.h"
#include "weft/models/folder.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"
#include "weft/data/documents.h"
#include "weft/train/run_folder.h"
#include "weft/train/work_line.h"

namespace weft::cli {
namespace {

struct Options {
  std::string folder, adapter, data, run, device, dtype;
  WeightsFlag weights;
  int64_t context = 0;
  TaskFlags tasks;
  int threads = 0;
  bool json = false;
};

struct Score {
  double loss = 0;  // sum over tokens, in nats
  int64_t tokens = 0, documents = 0, windows = 0, context = 0;
  std::string weights;
  double mean() const { return loss / double(tokens); }
};

// Scores every token of a document but the first once, given the tokens before it in its window. Windows hold `context` tokens and
// overlap by one: the last target of a window is the first input of the next. `progress` is called with the fraction of the document done.
void score(const Model& model, const std::vector<int32_t>& ids, int64_t context, Score& total,
           const std::function<void(double)>& progress) {
  const Tensor one = full(model.device(), {1}, 1);  // a divisor of 1: losses are summed, not averaged
  const int64_t targets = int64_t(ids.size()) - 1;
  for (int64_t first = 0; first < targets; first += context) {
    progress(double(first) / double(targets));
    const int64_t T = std::min(context, targets - first);
    const auto part = [&](int64_t from) {
      return Tensor::from_host(model.device(), {1, T}, std::span<const int32_t>(ids).subspan(size_t(from), size_t(T)));
    };
    total.loss += double(model.loss(part(first), part(first + 1), {.count = one}).item<float>());
    total.tokens += T;
    ++total.windows;
  }
}

// Repeats the validation of a training run on its held-out sequences.
int score_run(const Options& o) {
  check(o.folder.empty() && o.data.empty() && !o.tasks.any() && o.adapter.empty() && o.context == 0 && o.dtype.empty() && !o.weights.int8(),
        "eval", "--run takes model, data, context, dtype and weights from the run; do not pass them");
  const RunEvaluation e = evaluate_run(o.run, {.device = o.device, .threads = o.threads},
                                       [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); });
  const bool same = e.recorded && e.recorded->step == e.step && e.recorded->validation_loss == e.result.validation_loss;
  if (o.json) {
    nlohmann::ordered_json report = {{"step", e.step},
                                     {"validation_loss", e.result.validation_loss},
                                     {"perplexity", std::exp(e.result.validation_loss)},
                                     {"sequences", e.sequences}};
    if (e.result.accuracy) report["accuracy"] = *e.result.accuracy;
    if (e.recorded)
      report["recorded"] = {{"step", e.recorded->step}, {"validation_loss", e.recorded->validation_loss}, {"same_bits", same}};
    std::printf("%s\n", report.dump(2).c_str());
    return kOk;
  }
  std::printf("step %ld: validation loss %.4f, perplexity %.3f, %ld held-out sequences\n", long(e.step), e.result.validation_loss,
              std::exp(e.result.validation_loss), long(e.sequences));
  if (e.result.accuracy) std::printf("%.2f %% of unseen sums right\n", 100 * *e.result.accuracy);
  if (e.recorded)
    std::printf("the run's last evaluation: step %ld, validation loss %.4f%s\n", long(e.recorded->step), e.recorded->validation_loss,
                same ? ", bitwise equal" : "");
  return kOk;
}

// The declared context of the model: the length of the windows. Not for GPT-2: its positions are weights and fit shorter windows.
int64_t declared_context(const Options& o) {
  return o.context == 0 || read_model_config(o.folder).architecture == Architecture::gpt2 ? 0 : o.context;
}

int run_tasks(const Options& o) {
  check(!o.folder.empty() && o.data.empty(), "eval", "--task needs a model folder and takes no --data");
  TaskFlags flags = o.tasks;
  flags.options.context = o.context;
  return evaluate_tasks(flags, {o.folder, o.adapter, o.device, o.dtype, declared_context(o), o.threads, o.weights.int8()}, o.json);
}

// Scores all documents with the stored weights or int8 ones.
Score score_data(const Options& o, bool int8) {
  const auto device = open_device(o.device.empty() ? "cpu" : o.device, {.threads = o.threads});
  ShownProgress progress;
  const LaunchProgress launches(device->stream());
  const ModelFolder folder(o.folder, o.adapter, declared_context(o));
  const auto model = folder.load(*device, {.dtype = o.dtype.empty() ? std::optional<DType>() : dtype_from_name(o.dtype), .int8 = int8});
  const Tokenizer& tokenizer = folder.tokenizer();
  const int64_t most = folder.config().max_positions, context = o.context == 0 ? most : o.context;
  check(context >= 1 && context <= most, "eval", "--context is ", o.context, ", expected 1 to the model's ", most);
  const NoGrad no_grad;
  Score total{.context = context, .weights = std::string(int8 ? "int8" : name(model->dtype()))};
  const Documents documents(o.data, notice);
  const auto report_done = report_bytes("scoring", size_t(documents.bytes()));
  int64_t before = 0;  // bytes of the documents scored so far
  documents.visit([&](std::string_view text, const std::string& where) {
    check_utf8(text, where);
    const std::vector<int32_t> ids = encode_text(tokenizer, text, where);
    for (int32_t id : ids)
      check(id < model->config().vocab_size, where, "has token id ", id, ", the model's largest id is ", model->config().vocab_size - 1);
    score(*model, ids, context, total, [&](double share) { report_done(before + int64_t(share * double(text.size()))); });
    before += int64_t(text.size());
    ++total.documents;
  });
  progress.hide();
  check(total.tokens > 0, "eval", o.data, " has no document of at least two tokens: there is nothing to score");
  return total;
}

int run(const Options& o) {
  if (!o.run.empty()) return score_run(o);
  if (o.tasks.any()) return run_tasks(o);
  check(!o.folder.empty() && !o.data.empty(), "eval", "expected a model folder and --data or --task, or --run with the folder of a run");
  const Score total = score_data(o, o.weights.int8());
  std::optional<Score> plain;  // for comparison: the score with the stored weights
  if (o.weights.int8()) plain = score_data(o, false);
  if (o.json) {
    nlohmann::ordered_json report = {{"loss", total.mean()},     {"perplexity", std::exp(total.mean())},
                                     {"tokens", total.tokens},   {"documents", total.documents},
                                     {"windows", total.windows}, {"context", total.context}};
    if (plain) report["weights"] = "int8", report[plain->weights] = {{"loss", plain->mean()}, {"perplexity", std::exp(plain->mean())}};
    std::printf("%s\n", report.dump(2).c_str());
    return kOk;
  }
  std::printf("loss %.4f nats/token, perplexity %.3f%s\n", total.mean(), std::exp(total.mean()), plain ? " with int8 weights" : "");
  if (plain)
    std::printf("loss %.4f nats/token, perplexity %.3f with %s weights\n", plain->mean(), std::exp(plain->mean()), plain->weights.c_str());
  std::printf("%ld tokens of %ld documents in %ld windows of up to %ld tokens\n", long(total.tokens), long(total.documents),
              long(total.windows), long(total.context));
  return kOk;
}

}  // namespace

Run add_eval(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Compute the loss and perplexity of a model on a text, or its scores on tasks");
  command->footer("Each document is split into windows of --context tokens; every token but a document's first is scored once.");
  auto o = std::make_shared<Options>();
  command->add_option("model", o->folder, "Folder with config.json, model.safetensors and tokenizer.json, or a GGUF file");
  command->add_option("--data", o->data,
                      "UTF-8 text, .jsonl or .json (the \"text\" of each line or element is a document), or a folder of such files");
  command->add_option(
      "--run", o->run,
      "Folder of a training run: repeat its validation on the held-out sequences with the weights of the newest checkpoint");
  o->tasks.add_to(*command);
  command->add_option("--context", o->context,
                      "Tokens per window (default: the model's context length); dynamic and longrope are computed from it");
  command->add_option("--adapter", o->adapter, "Folder with a LoRA adapter of the model (adapter_config.json, adapter_model.safetensors)");
  command->add_option("--device", o->device, "Device to run on (default: cpu; with --run: the device of the run)");
  command->add_option("--dtype", o->dtype, "f32 or bf16 (default: as stored)")->check(CLI::IsMember({"f32", "bf16"}));
  o->weights.add_to(*command);
  command->add_option("--threads", o->threads, "CPU threads (default: all this process may use)");
  command->add_flag("--json", o->json, "Print JSON");
  return [o] { return run(*o); };
}

}  // namespace weft::cli
