#include <cstdio>
#include <filesystem>

#include "weft/io/atomic_files.h"
#include "weft/models/gguf_config.h"
#include "weft/models/gguf_families.h"
#include "weft/models/gguf_rope.h"
#include "weft/models/gguf_tokenizer.h"
#include "weft/models/load.h"
#include "weft/models/tokenizer_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// The value of general.file_type, which stands for the type of most weights.
uint32_t file_type(const GgufType& type) {
  switch (type.id) {
    case 0: return 0;
    case 1: return 1;
    case 30: return 32;
    default: return 7;  // q8_0
  }
}

// The value of general.name, such as "qwen3 1.7B". It does not contain the file's name: if a model's name contains "phi3" or "phi-3",
// llama.cpp expects the special tokens of Phi-3 and fails to load a vocabulary without them.
std::string model_name(const ModelConfig& config) {
  const double count = double(config.parameter_count());
  const auto [unit, suffix] = count >= 1e9 ? std::pair{1e9, "B"} : count >= 1e6 ? std::pair{1e6, "M"} : std::pair{1e3, "K"};
  char size[32];
  std::snprintf(size, sizeof size, "%.*f%s", unit == 1e9 ? 1 : 0, count / unit, suffix);
  return join(config.architecture == Architecture::phi3 ? "phi" : name(config.architecture), " ", size);
}

// Vectors, routers and learned positions are F32, as llama.cpp requires.
const GgufType& type_of(const std::string& name, const Shape& shape, const GgufType& wanted) {
  const bool vector = shape.rank() < 2 || name.ends_with(".bias") || name.ends_with("_norm.weight") ||
                      name.ends_with("ffn_gate_inp.weight") || name == "position_embd.weight";
  if (vector) return gguf_type_to_write("f32");
  return shape[shape.rank() - 1] % wanted.elements == 0 ? wanted : gguf_type_to_write("f16");
}

// Adds the matrices of experts; gate and up become separate tensors.
void add_experts(const std::vector<GgufExpertPart>& parts, const DeferredTensor& weight, const GgufType& wanted,
                 std::vector<GgufTensor>& tensors) {
  for (const GgufExpertPart& part : parts) {
    const Shape shape = gguf_part_shape(part, weight.shape);
    tensors.push_back({part.name, &type_of(part.name, shape, wanted), shape, [weight, part, shape] {
                         const Tensor all = weight.make();
                         std::vector<float> values(size_t(shape.numel()));
                         const size_t size = values.size() / size_t(shape[0]);
                         for (int64_t e = 0; e < shape[0]; ++e)
                           to_gguf_part(part, weight.shape, all.part(0, e, e + 1).to_host<float>(),
                                        std::span(values).subspan(size_t(e) * size, size));
                         return values;
                       }});
  }
}

std::vector<GgufTensor> tensors_of(const Model& model, const GgufType& wanted) {
  const ModelConfig& config = model.config();
  const GgufFamily& family = gguf_family(config.architecture);
  std::vector<GgufTensor> tensors = gguf_rope_tensors(config);
  for (DeferredTensor& weight : parameters_to_export(model, DType::f32)) {
    if (const auto parts = gguf_expert_parts(config, weight.name, weight.shape); !parts.empty()) {
      add_experts(parts, weight, wanted, tensors);
      continue;
    }
    const auto place = gguf_place(family, weight.name);
    if (!place) fail(ErrorCode::unsupported, "export", "GGUF's family ", family.name, " has no tensor for '", weight.name, "'");
    const Shape shape = gguf_shape(place->layout, weight.shape);
    const int64_t heads = gguf_heads(config, weight.name);
    tensors.push_back({place->name, &type_of(place->name, shape, wanted), shape, [weight, place, heads] {
                         return to_gguf_layout(place->layout, weight.shape, heads, weight.make().to_host<float>());
                       }});
  }
  return tensors;
}

}  // namespace

void export_gguf(const Model& model, const std::string& path, const GgufOptions& options) {
  const GgufType& type = gguf_type_to_write(options.dtype);
  std::error_code error;
  check(options.like.empty() || !fs::equivalent(path, options.like, error), "export", "'", path, "' is the file the model was loaded from");
  const ModelConfig& config = model.config();
  GgufMetadata metadata;
  metadata.put("general.architecture", gguf_family(config.architecture).name);
  metadata.put("general.type", "model");
  metadata.put("general.name", model_name(config));
  metadata.put("general.file_type", file_type(type));
  metadata.put("general.quantization_version", uint32_t(2));
  put_model_config(config, metadata);
  if (!options.like.empty()) put_generation_config(read_generation_config(options.like), metadata);
  if (!options.tokenizer.empty() && has_tokenizer(options.tokenizer)) {
    put_tokenizer(TokenizerFolder(options.tokenizer), config.vocab_size, metadata);
  } else {
    put_no_tokenizer(metadata);
    put_special_ids({config.bos_id, config.pad_id, config.eos_ids}, metadata);
  }
  AtomicFiles files;
  write_gguf(files.add(path), metadata, tensors_of(model, type));
  files.commit();
}

}  // namespace weft
