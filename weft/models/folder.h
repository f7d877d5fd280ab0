// A model on disk, as a Hugging Face folder or a GGUF file: config, weights, tokenizer with its special tokens, generation settings, chat
// templates. The tool and other programs read models through it, so that all use the same tokens.
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

// Files are read on first use, and errors name them. Not thread-safe.
class ModelFolder {
 public:
  // `path`: a folder or a GGUF file. `adapter`: a folder with a LoRA adapter for the model; its tokenizer, if it has one, replaces the
  // model's. `context`: the declared context (declare_context); 0: that of the config.
  explicit ModelFolder(std::string path, std::string adapter = "", int64_t context = 0);

  const std::string& path() const { return path_; }
  const ModelConfig& config() const;
  const GenerationConfig& generation() const;

  bool has_tokenizer() const;
  std::string lack_of_tokenizer() const;            // for errors: "x has no tokenizer.json", or of a GGUF file "x.gguf has no tokenizer"
  const TokenizerFolder& tokenizer_folder() const;  // throws, naming the folder, if there is no tokenizer
  const Tokenizer& tokenizer() const { return tokenizer_folder().tokenizer(); }

  // The ids that end a text: those of the files, else those of the tokenizer.
  std::vector<int32_t> end_ids() const;

  std::unique_ptr<Model> load(Device& device, const ModelOptions& options = {}) const;

 private:
  std::string tokenizer_path() const;

  std::string path_, adapter_;
  int64_t context_;
  mutable std::optional<ModelConfig> config_;
  mutable std::optional<GenerationConfig> generation_;
  mutable std::optional<TokenizerFolder> tokenizer_;
};

}  // namespace weft
