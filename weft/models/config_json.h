// config.json and generation_config.json of a Hugging Face model folder. What changes the maths and is not supported is
// refused by name; docs/models.md lists the keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/models/config.h"

namespace weft {

// `path`: a config.json, or the folder that has one. Throws bad_file or unsupported with the file, the place in it
// ($.rope_scaling.factor), the value and what was expected.
ModelConfig read_model_config(const std::string& path);
ModelConfig parse_model_config(std::string_view json, const std::string& file = "config.json");

// A config.json that transformers reads as this model, in the spelling that its older versions know too.
std::string model_config_json(const ModelConfig& config);

// What generation_config.json says about how to generate; nothing where it does not.
struct GenerationConfig {
  std::optional<int64_t> bos_id, pad_id;
  std::vector<int64_t> eos_ids;
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k, max_new_tokens;
};

// `path`: a generation_config.json, or a folder; a folder without one gives an empty answer.
GenerationConfig read_generation_config(const std::string& path);
GenerationConfig parse_generation_config(std::string_view json, const std::string& file = "generation_config.json");
std::string generation_config_json(const GenerationConfig& config);

// The generation_config.json of `folder` with the ids of `config`, everything else as it is; a new one where it has none.
std::string generation_config_json(const std::string& folder, const ModelConfig& config);

// The special tokens that a folder's files name by id: generation_config.json has the first word, then config.json. Reads
// nothing else of them, so that a folder of any family, or one with a tokenizer alone, can be asked.
struct SpecialIds {
  std::optional<int64_t> bos_id, pad_id;
  std::vector<int64_t> eos_ids;
};
SpecialIds read_special_ids(const std::string& folder);

}  // namespace weft
