#include "weft/train/capture.h"

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

std::string unit_name(size_t i, const char* part) { return join("unit", i, ".", part); }

}  // namespace

std::optional<BadTensor> find_bad_tensor(TrainingStep& step, const Optimizer& optimizer, std::span<const Unit> units) {
  for (const NamedTensor& p : optimizer.parameters())
    if (!all_finite(p.tensor)) return BadTensor{"weights", join(p.name, " ", p.tensor.shape())};
  std::optional<BadTensor> bad;
  int64_t unit = 0, order = 0;
  const Watch watch([&](const Seen& seen) {
    if (bad) return;
    ++order;
    if (seen.tensor.defined() && !all_finite(seen.tensor))
      bad = BadTensor{seen.op, join(seen.backward ? "gradient of input " : "output ", seen.which, " ", seen.tensor.shape()), unit, order};
  });
  step.gradients(units, [&](int64_t next) { unit = next, order = 0; });
  return bad;
}

void write_capture(const std::string& path, const TrainConfig& config, const Model& model, const Tensor& random_state,
                   std::span<const Unit> units, const CaptureFacts& facts) {
  std::vector<NamedTensor> tensors;
  for (const NamedTensor& p : model.all_parameters()) tensors.push_back({"model." + p.name, p.tensor});
  tensors.push_back({"random_state", random_state});
  for (size_t i = 0; i < units.size(); ++i) {
    tensors.push_back({unit_name(i, "ids"), upload_ids(model.device(), units[i], units[i].ids)});
    tensors.push_back({unit_name(i, "targets"), upload_ids(model.device(), units[i], units[i].targets)});
  }
  write_checkpoint(path,
                   {{"capture", "1"},
                    {"step", std::to_string(facts.step)},
                    {"loss", text_of(facts.loss)},
                    {"gradient_norm", text_of(facts.gradient_norm)},
                    {"units", std::to_string(units.size())},
                    {"config", to_toml(config)},
                    {"model", model_config_json(model.config())}},
                   tensors);
}

Replay replay_capture(const std::string& path, const std::string& device_name, int threads) {
  const Checkpoint file(path);
  if (!file.file().metadata().contains("capture")) fail(ErrorCode::bad_file, path, "is a checkpoint, not the capture of a step");
  TrainConfig config;
  parse_config(file.value("config"), path, config);
  const auto device = open_device(device_name, {.threads = threads});
  const auto model = make_planned_model(config, parse_model_config(file.value("model"), path), *device);
  const auto optimizer = make_optimizer(config, *model);
  TrainingStep step(*model, *optimizer,
                    {.clip = config.clip, .recompute = config.recompute, .seed = uint64_t(config.seed), .pass_tokens = config.pass_tokens});
  for (const NamedTensor& p : model->all_parameters()) file.restore({"model." + p.name, p.tensor});
  std::vector<Unit> units;
  for (int64_t i = 0; i < file.integer("units"); ++i) {
    const SafeTensors::Entry& entry = file.file().at(unit_name(size_t(i), "ids"));
    Unit unit{entry.shape[0], entry.shape[1], {}, {}};
    const auto read = [&](const char* part) {
      const auto bytes = file.file().at(unit_name(size_t(i), part)).bytes;
      const auto* first = reinterpret_cast<const int32_t*>(bytes.data());
      return std::vector<int32_t>(first, first + bytes.size() / sizeof(int32_t));
    };
    unit.ids = read("ids");
    unit.targets = read("targets");
    units.push_back(std::move(unit));
  }
  Replay replay{
      {file.integer("step"), std::strtod(file.value("loss").c_str(), nullptr), std::strtod(file.value("gradient_norm").c_str(), nullptr)},
      {},
      {}};
  const auto rewind = [&] { file.restore({"random_state", step.random_state()}); };
  rewind();
  replay.result = step.gradients(units);
  rewind();
  replay.bad = find_bad_tensor(step, *optimizer, units);
  return replay;
}

std::string bad_text(const BadTensor& bad) {
  if (bad.op == "weights") return join("the weight ", bad.tensor, " was not finite before the step");
  return join(bad.op, ": ", bad.tensor, " is the first that is not finite (in the pass from unit ", bad.unit + 1, " on, tensor ", bad.order,
              ")");
}

}  // namespace weft
