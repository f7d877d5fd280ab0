// config.json and generation_config.json of a Hugging Face model folder. Unsupported keys that change the maths are rejected by name;
// docs/models.md lists the keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/models/config.h"

namespace weft {

// `path`: a config.json, a folder with one, or a GGUF file. Throws bad_file or unsupported with the file, the place in it
// ($.rope_scaling.factor), the value and what was expected.
ModelConfig read_model_config(const std::string& path);
ModelConfig parse_model_config(std::string_view json, const std::string& file = "config.json");

// A config.json for transformers, in a spelling that its older versions read too.
std::string model_config_json(const ModelConfig& config);

// The settings of generation_config.json; nullopt where it has none.
struct GenerationConfig {
  std::optional<int64_t> bos_id, pad_id;
  std::vector<int64_t> eos_ids;
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k, max_new_tokens;
};

// `path`: a generation_config.json, a folder or a GGUF file; a folder without one gives an empty result.
GenerationConfig read_generation_config(const std::string& path);
GenerationConfig parse_generation_config(std::string_view json, const std::string& file = "generation_config.json");
std::string generation_config_json(const GenerationConfig& config);

// The generation_config.json of `folder` with the ids of `config`; a new one if the folder has none.
std::string generation_config_json(const std::string& folder, const ModelConfig& config);

// The special tokens that a folder's files name by id: from generation_config.json, else config.json. Reads nothing else of them, so
// it works for a folder of any family, and for one with only a tokenizer. `folder` may be a GGUF file.
struct SpecialIds {
  std::optional<int64_t> bos_id, pad_id;
  std::vector<int64_t> eos_ids;
};
SpecialIds read_special_ids(const std::string& folder);

}  // namespace weft
