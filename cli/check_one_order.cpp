#include "cli/check_one_order.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "weft/base/check.h"
#include "weft/models/folder.h"
#include "weft/order/one_order.h"
#include "weft/order/random_models.h"
#include "weft/train/setup.h"
#include "weft/train/work_line.h"

namespace weft::cli {
namespace {

constexpr int64_t kContext = 768;  // of the random models: more than one segment of keys on every device

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

void print(const OneOrderReport& r, const std::string& description) {
  std::printf("%-9s %s\n", r.differences.empty() ? "same" : "DIFFERENT", description.c_str());
  std::printf("          %ld positions, digest %s\n", long(r.positions), hex(r.digest).c_str());
  for (const OrderDifference& d : r.differences)
    std::printf("          %s: %ld of %ld positions differ from training; first in %s\n", d.path.c_str(), long(d.positions), long(d.of),
                d.first.c_str());
  std::fflush(stdout);
}

nlohmann::ordered_json as_json(const OneOrderReport& r, const std::string& description) {
  nlohmann::ordered_json entry = {{"model", description}, {"positions", r.positions}, {"digest", hex(r.digest)}};
  auto& list = entry["differences"] = nlohmann::ordered_json::array();
  for (const OrderDifference& d : r.differences)
    list.push_back({{"path", d.path}, {"positions", d.positions}, {"of", d.of}, {"first", d.first}});
  return entry;
}

}  // namespace

void CheckOneOrder::add_to(CLI::App& command) {
  command.add_flag("--one-order", wanted,
                   "Check instead that training, evaluation, prompts and decoding give the same bits (docs/numerics.md)");
  command.add_option("--tokens", tokens, "--one-order: positions to decode, over all models")->capture_default_str();
  command.add_option("--batch", batch, "--one-order: most sequences decoded at once")->capture_default_str();
  command.add_option("--length", length, "--one-order: tokens of the longest sequence (default: 160, some of the random models' 640)");
  command.add_option("--models", models, "--one-order: number of random models")->capture_default_str();
  command.add_option("--seed", seed, "--one-order: seed of models and sequences")->capture_default_str();
  command.add_option("--model", model, "--one-order: a model folder, instead of random models");
  command.add_option("--adapter", adapter, "--one-order: folder with a LoRA adapter of --model");
  weights.add_to(command);
  command.add_option("--shape", shape, "--one-order: random weights in the shape of 1b, 135m or 124m, instead of small random models");
}

int CheckOneOrder::run(Device& device, const std::string& dtype, bool json) const {
  check(tokens >= 1 && batch >= 1 && models >= 1, "check", "--tokens is ", tokens, ", --batch ", batch, " and --models ", models,
        ", expected 1 or more");
  check(model.empty() || shape.empty(), "check", "--model and --shape exclude each other");
  check(adapter.empty() || !model.empty(), "check", "--adapter needs --model");
  check(dtype.empty() || dtype == "f32" || dtype == "bf16", "check", "--one-order runs in f32 or bf16, got ", dtype);
  ShownProgress progress;
  OneOrderOptions options{.batch = batch, .length = length, .pass_tokens = default_micro_batch_tokens(device.name()), .seed = seed};
  auto all = nlohmann::ordered_json::array();
  bool same = true;
  const auto run_one = [&](OrderModel made, int64_t of) {
    options.tokens = (tokens + of - 1) / of;
    const OneOrderReport report = check_one_order(*made.model, options);
    progress.hide();
    json ? all.push_back(as_json(report, made.description)) : print(report, made.description);
    same &= report.differences.empty();
  };
  // With at least 2 kOrderFamilies models every family is checked in both dtypes.
  const auto dtype_of = [&](int64_t i) {
    return dtype.empty() ? ((i + i / kOrderFamilies) % 2 ? DType::bf16 : DType::f32) : dtype_from_name(dtype);
  };
  const DType given = dtype.empty() ? DType::bf16 : dtype_from_name(dtype);
  if (!model.empty()) {
    const ModelFolder folder(model, adapter);
    ModelOptions load{.trainable = !weights.int8(), .dropout = 0.0f, .int8 = weights.int8()};
    if (!dtype.empty()) load.dtype = given;
    run_one({model, folder.load(device, load)}, 1);
  } else if (!shape.empty()) {
    run_one(shaped_order_model(device, given, seed, shape, weights.int8()), 1);
  } else {
    for (int64_t i = 0; i < models; ++i) {
      options.length = length ? length : i % 4 == 3 ? 640 : 160;
      const bool int8 = weights.int8() || (i % 5 == 3 && !device.name().starts_with("metal"));
      run_one(random_order_model(device, dtype_of(i), seed, i, std::max(kContext, options.length), int8), models);
    }
  }
  if (json)
    std::printf("%s\n", nlohmann::ordered_json{{"device", device.name()}, {"same", same}, {"models", all}}.dump(2).c_str());
  else
    std::printf("\n%s\n", same ? "no differing bits" : "bits differ");
  return same ? kOk : kFailed;
}

}  // namespace weft::cli
