// weft check --one-order: the promise of one order of sums on random models (weft/order/one_order.h).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/weights_flag.h"
#include "weft/device/device.h"

namespace weft::cli {

struct CheckOneOrder {
  bool wanted = false;
  std::string model, shape, adapter;
  WeightsFlag weights;
  int64_t tokens = 20000, batch = 8, length = 0, models = 32;
  uint64_t seed = 1;

  void add_to(CLI::App& command);
  // dtype: "f32", "bf16", or "" for both.
  int run(Device& device, const std::string& dtype, bool json) const;
};

}  // namespace weft::cli
