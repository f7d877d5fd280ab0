#include "weft/models/folder.h"

#include "weft/base/check.h"
#include "weft/io/gguf.h"

namespace weft {

ModelFolder::ModelFolder(std::string path, std::string adapter, int64_t context)
    : path_(std::move(path)), adapter_(std::move(adapter)), context_(context) {}

const ModelConfig& ModelFolder::config() const {
  if (config_) return *config_;
  ModelConfig config = read_model_config(path_);
  if (context_ != 0) declare_context(config, context_);
  return config_.emplace(std::move(config));
}

const GenerationConfig& ModelFolder::generation() const {
  if (!generation_) generation_ = read_generation_config(path_);
  return *generation_;
}

std::string ModelFolder::tokenizer_path() const { return !adapter_.empty() && weft::has_tokenizer(adapter_) ? adapter_ : path_; }

bool ModelFolder::has_tokenizer() const { return weft::has_tokenizer(tokenizer_path()); }

std::string ModelFolder::lack_of_tokenizer() const { return join(path_, " has no ", is_gguf(path_) ? "tokenizer" : "tokenizer.json"); }

const TokenizerFolder& ModelFolder::tokenizer_folder() const {
  if (!tokenizer_) tokenizer_.emplace(tokenizer_path());
  return *tokenizer_;
}

std::vector<int32_t> ModelFolder::end_ids() const {
  if (has_tokenizer()) return tokenizer_folder().end_ids();
  const std::vector<int64_t> ids = read_special_ids(path_).eos_ids;
  return {ids.begin(), ids.end()};
}

std::unique_ptr<Model> ModelFolder::load(Device& device, const ModelOptions& options) const {
  return load_model(path_, config(), device, options, adapter_);
}

}  // namespace weft
