#include "weft/train/capture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/models/config_json.h"
#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"
#include "weft/tensor/watch.h"
#include "weft/train/checkpoint.h"
#include "weft/train/setup.h"

namespace weft {
namespace {

bool all_finite(const Tensor& tensor) {
  if (!is_float(tensor.dtype())) return true;
  const NoGrad no_grad;
  for (float value : cast(contiguous(tensor.detach()), DType::f32).to_host<float>())
    if (!std::isfinite(value)) return false;
  return true;
}

std::string text_of(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string saved_name(size_t sequence, const char* tensor) { return join("unit", sequence, ".", tensor); }

// From the saved bounds, whose number is the capacity: the tail of them is the end of the ids.
void set_documents(TokenBatch& sequence, const std::vector<int32_t>& bounds, const std::string& where) {
  const auto end = int64_t(sequence.ids.size());
  sequence.document_capacity = int64_t(bounds.size()) - 1;
  for (int32_t begin : bounds)
    if (begin < end) sequence.documents.push_back(begin);
  check(!bounds.empty() && bounds.front() == 0 && bounds.back() == end && std::is_sorted(bounds.begin(), bounds.end()), where,
        "has documents that do not cover their sequence");
}

std::vector<TokenBatch> read_sequences(const Checkpoint& file) {
  std::vector<TokenBatch> sequences;
  for (int64_t i = 0; i < file.integer("units"); ++i) {
    const auto read = [&](const char* tensor) {
      const auto bytes = file.file().at(saved_name(size_t(i), tensor)).bytes;
      const auto* first = reinterpret_cast<const int32_t*>(bytes.data());
      return std::vector<int32_t>(first, first + bytes.size() / sizeof(int32_t));
    };
    const Shape& shape = file.file().at(saved_name(size_t(i), "ids")).shape;
    TokenBatch& sequence = sequences.emplace_back(TokenBatch{shape[0], shape[1], read("ids"), read("targets")});
    if (file.file().contains(saved_name(size_t(i), "documents"))) set_documents(sequence, read("documents"), file.path());
  }
  return sequences;
}

}  // namespace

std::optional<BadTensor> find_bad_tensor(TrainingStep& step, const Optimizer& optimizer, std::span<const TokenBatch> sequences) {
  for (const NamedTensor& p : optimizer.parameters())
    if (!all_finite(p.tensor)) return BadTensor{"weights", join(p.name, " ", p.tensor.shape())};
  std::optional<BadTensor> bad;
  int64_t sequence = 0, order = 0;
  const Watch watch([&](const Seen& seen) {
    if (bad) return;
    ++order;
    if (seen.tensor.defined() && !all_finite(seen.tensor))
      bad =
          BadTensor{seen.op, join(seen.backward ? "gradient of input " : "output ", seen.which, " ", seen.tensor.shape()), sequence, order};
  });
  step.gradients(sequences, [&](int64_t next) { sequence = next, order = 0; });
  return bad;
}

void write_capture(const std::string& path, const TrainConfig& config, const Model& model, const Tensor& random_state,
                   std::span<const TokenBatch> sequences, const CaptureFacts& facts) {
  std::vector<NamedTensor> tensors;
  for (const NamedTensor& p : model.all_parameters()) tensors.push_back({"model." + p.name, p.tensor});
  tensors.push_back({"random_state", random_state});
  for (size_t i = 0; i < sequences.size(); ++i) {
    tensors.push_back({saved_name(i, "ids"), sequences[i].upload_ids(model.device())});
    tensors.push_back({saved_name(i, "targets"), sequences[i].upload_targets(model.device())});
    if (const Tensor documents = sequences[i].upload_documents(model.device())) tensors.push_back({saved_name(i, "documents"), documents});
  }
  Values values = {{"capture", "1"},
                   {"step", std::to_string(facts.step)},
                   {"loss", text_of(facts.loss)},
                   {"gradient_norm", text_of(facts.gradient_norm)},
                   {"units", std::to_string(sequences.size())},
                   {"config", to_toml(config)},
                   {"model", model_config_json(model.config())}};
  if (!facts.bad.empty()) values["bad"] = facts.bad;
  write_checkpoint(path, values, tensors);
}

Replay replay_capture(const std::string& path, const std::string& device_name, int threads) {
  const Checkpoint file(path);
  if (!file.file().metadata().contains("capture")) fail(ErrorCode::bad_file, path, "is a checkpoint, not the capture of a step");
  TrainConfig config;
  parse_config(file.value("config"), path, config);
  const auto device = open_device(device_name, {.threads = threads});
  ModelConfig model_config = parse_model_config(file.value("model"), path);
  // With dynamic scaling, config.json stores the original context, not the declared one.
  if (config.context && model_config.rope_scaling.kind == RopeScaling::Kind::dynamic) declare_context(model_config, config.context);
  const auto model = make_planned_model(config, model_config, *device);
  const auto optimizer = make_optimizer(config, *model);
  TrainingStep step(*model, *optimizer, step_options(config));
  for (const NamedTensor& p : model->all_parameters()) file.restore({"model." + p.name, p.tensor});
  const std::vector<TokenBatch> sequences = read_sequences(file);
  Replay replay{{file.integer("step"), std::strtod(file.value("loss").c_str(), nullptr),
                 std::strtod(file.value("gradient_norm").c_str(), nullptr), file.find("bad") ? *file.find("bad") : ""},
                {},
                {}};
  const auto rewind = [&] { file.restore({"random_state", step.random_state()}); };
  rewind();
  replay.result = step.gradients(sequences);
  rewind();
  replay.bad = find_bad_tensor(step, *optimizer, sequences);
  return replay;
}

std::string bad_text(const BadTensor& bad) {
  if (bad.op == "weights") return join("the weight ", bad.tensor, " was not finite before the step");
  return join(bad.op, ": ", bad.tensor, " is the first that is not finite (tensor ", bad.order,
              " of the micro-batch that starts at sequence ", bad.sequence + 1, ")");
}

}  // namespace weft
