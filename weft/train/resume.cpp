#include "weft/train/resume.h"

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/io/checksum.h"
#include "weft/io/weight_files.h"

namespace weft {
namespace {

// The fraction of the data that is held out of training.
double held_out(const TrainConfig& config) { return config.validation_data.empty() ? config.validation : 0; }

}  // namespace

void check_resumable(TrainConfig now, TrainConfig before, const std::string& where, const Notice& notice) {
  if (now.model == before.model) {
    now = with_model_sizes(std::move(now));
    before = with_model_sizes(std::move(before));
  }
  for (const Setting& setting : settings())
    std::visit(
        [&](auto field) {
          const bool same = now.*field == before.*field;
          check(same || setting.resume != Resume::fixed, "train", setting.key, " is ", now.*field, ", but the run in ", where,
                " was started with ", before.*field);
          if (!same && setting.resume == Resume::reported) notice(join(setting.key, " is now ", now.*field, ", it was ", before.*field));
        },
        setting.field);
  check(held_out(now) == held_out(before), "train", "validation_data is '", now.validation_data, "', but the run in ", where,
        " was started with '", before.validation_data, "', and held out ", held_out(before), " of its data, not ", held_out(now),
        ": it would train on other sequences");
  check(now.optimizer != "sgd" || (now.momentum > 0) == (before.momentum > 0), "train", "momentum is ", now.momentum, ", but the run in ",
        where, " was started with ", before.momentum, ": only one of the two keeps a momentum in its state");
}

std::string base_checksum(const TrainConfig& config) {
  if (config.lora_rank == 0) return "";
  const WeightFiles weights(config.model);
  uint32_t crc = 0;
  for (const auto& file : weights.files()) {
    const auto bytes = file->mapping()->bytes();
    crc = crc32c(bytes, crc, report_bytes("reading the base weights", bytes.size()));
  }
  return std::to_string(crc);
}

}  // namespace weft
