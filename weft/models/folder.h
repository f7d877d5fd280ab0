// A Hugging Face model folder as one thing: config, weights, tokenizer with its special tokens, generation settings. Every
// command of the tool and every program that starts from a folder goes through it, so that all see the same tokens.
//
//   const ModelFolder folder("SmolLM2-135M");
//   const auto model = folder.load(*device);
//   Generator generator(*model, folder, {.max_tokens = 40});
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/models/config_json.h"
#include "weft/models/load.h"
#include "weft/models/tokenizer_folder.h"

namespace weft {

// Files are read when they are first asked for, and errors name them. One thread at a time.
class ModelFolder {
 public:
  // `adapter`: a folder with a LoRA adapter of the model. Where that folder holds a tokenizer, it is the one in use.
  explicit ModelFolder(std::string path, std::string adapter = "");

  const std::string& path() const { return path_; }
  const ModelConfig& config() const;
  const GenerationConfig& generation() const;

  bool has_tokenizer() const;
  const TokenizerFolder& tokenizer_folder() const;  // throws, naming the folder, where there is no tokenizer
  const Tokenizer& tokenizer() const { return tokenizer_folder().tokenizer(); }

  // The ids at which a text ends: those of the files, and of the tokenizer where they name none.
  std::vector<int32_t> end_ids() const;

  std::unique_ptr<Model> load(Device& device, const ModelOptions& options = {}) const;

 private:
  std::string tokenizer_path() const;

  std::string path_, adapter_;
  mutable std::optional<ModelConfig> config_;
  mutable std::optional<GenerationConfig> generation_;
  mutable std::optional<TokenizerFolder> tokenizer_;
};

}  // namespace weft
