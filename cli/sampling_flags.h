// The sampler's settings as flags, shared by the commands that generate text: flags override the folder's generation_config.json.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/generate/generator.h"

namespace weft::cli {

struct SamplingFlags {
  std::optional<int64_t> top_k, max_tokens;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  uint64_t seed = 0;

  void add_to(CLI::App& command);  // all but --max-tokens, whose default differs

  // Top-k, top-p and min-p only matter when tokens are sampled, so they turn sampling on.
  SamplingOptions sampling(const ModelFolder& folder) const;
  // Prints once which of the folder's settings are in use, except those that a flag overrides.
  void tell(const ModelFolder& folder) const;

  // The same settings by name, as `/set top-k 40` gives them. Throws for a value that is no number; false: there is no such setting.
  bool set(std::string_view name, const std::string& value);
  static std::vector<std::string> names();
};

}  // namespace weft::cli
