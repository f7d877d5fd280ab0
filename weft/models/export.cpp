#include <algorithm>
#include <filesystem>

#include "weft/io/atomic_files.h"
#include "weft/io/is_there.h"
#include "weft/io/mapped_file.h"
#include "weft/io/safetensors_writer.h"
#include "weft/models/config_json.h"
#include "weft/models/expert_tensors.h"
#include "weft/models/load.h"
#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGenerationConfig = "generation_config.json";

bool same_ids(const ModelConfig& a, const ModelConfig& b) { return a.bos_id == b.bos_id && a.pad_id == b.pad_id && a.eos_ids == b.eos_ids; }

// The source's text if its ids are still valid, else a new one. Settings out of range are an error here rather than at `weft generate`.
std::string generation_config_of(const ModelConfig& config, const std::string& like) {
  if (!like.empty()) read_generation_config(like);
  const fs::path file = fs::path(like) / kGenerationConfig;
  if (like.empty() || !is_there(file) || !same_ids(config, read_model_config(like))) return generation_config_json(like, config);
  const MappedFile text(file.string());
  return {reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size()};
}

// The files of the tokenizer to write; nullopt: keep those in the folder.
std::optional<TokenizerFiles> tokenizer_of(const ExportOptions& options) {
  if (options.tokenizer_files) return options.tokenizer_files;
  const std::string& from = options.tokenizer.empty() ? options.like : options.tokenizer;
  return from.empty() ? std::nullopt : std::optional(read_tokenizer_files(from));
}

}  // namespace

DType export_dtype(std::string_view text) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    if (text == name(dtype)) return dtype;
  fail(ErrorCode::invalid_argument, "export", "weights are written as f32, bf16 or f16, got '", text, "'");
}

std::vector<DeferredTensor> parameters_to_export(const Model& model, DType dtype) {
  std::vector<DeferredTensor> tensors;
  for (const NamedTensor& p : model.parameters())
    tensors.push_back({p.name, dtype, p.tensor.shape(), [&model, dtype, name = p.name, value = p.tensor] {
                         const NoGrad no_grad;
                         const auto adapter = std::ranges::find_if(model.adapters(),
                                                                   [&](const LoraAdapter& each) { return each.layer + ".weight" == name; });
                         return cast(adapter == model.adapters().end() ? value.detach() : merged(value, *adapter), dtype);
                       }});
  return tensors;
}

std::vector<DeferredTensor> exported_weights(const Model& model, DType dtype) {
  std::vector<DeferredTensor> tensors;
  for (DeferredTensor& whole : parameters_to_export(model, dtype)) {
    const std::vector<ExpertPart> parts = expert_parts(model.config(), whole.name, whole.shape);
    if (parts.empty()) {
      whole.name = published_name(model.config(), whole.name);
      tensors.push_back(std::move(whole));
      continue;
    }
    const Tensor& all = std::ranges::find(model.parameters(), whole.name, &NamedTensor::name)->tensor;
    for (const ExpertPart& part : parts) {
      const Shape shape{part.last - part.first, whole.shape[2]};
      tensors.push_back({part.name, dtype, shape, [all = all.detach(), part, shape, dtype] {
                           const NoGrad no_grad;
                           return cast(all.part(0, part.expert, part.expert + 1).part(1, part.first, part.last).reshape(shape), dtype);
                         }});
    }
  }
  return tensors;
}

void export_model(const Model& model, const std::string& folder, const ExportOptions& options) {
  const DType dtype = options.dtype.value_or(model.dtype());
  check(is_float(dtype), "export", "weights are written as f32, bf16 or f16, got ", dtype);
  check(!folder.empty(), "export", "expected a folder to write to, got an empty path");
  const fs::path to(folder), like(options.like);
  std::error_code error;
  check(options.like.empty() || !fs::equivalent(to, like, error), "export", "'", folder, "' is the folder the model was loaded from");

  ModelConfig config = model.config();
  config.dtype = dtype;
  const std::string config_text = model_config_json(config), generation_text = generation_config_of(config, options.like);
  const std::optional<TokenizerFiles> tokenizer = tokenizer_of(options);
  AtomicFiles files;
  write_safetensors(files.add(to / "model.safetensors"), exported_weights(model, dtype), {{"format", "pt"}}, Floats::finite);
  files.add(to / "config.json", config_text);
  files.add(to / kGenerationConfig, generation_text);
  if (tokenizer) add_tokenizer(*tokenizer, folder, files);
  files.commit();
  if (tokenizer) remove_other_tokenizer(*tokenizer, folder);
}

}  // namespace weft
