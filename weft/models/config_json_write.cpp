// config.json as transformers reads it.
#include <filesystem>

#include "weft/io/mapped_file.h"
#include "weft/models/config_json.h"
#include "weft/models/families/family.h"

namespace weft {
namespace {

using Ordered = nlohmann::ordered_json;

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float32";
    case DType::bf16: return "bfloat16";
    case DType::f16: return "float16";
    default: fail(ErrorCode::invalid_argument, "config.json", "a model cannot be stored in ", dtype);
  }
}

Ordered ids(const std::vector<int64_t>& list) {
  if (list.empty()) return nullptr;
  if (list.size() == 1) return list[0];
  return list;
}

}  // namespace

std::string model_config_json(const ModelConfig& c) {
  Ordered out;
  const Family& family = family_of(c.architecture);
  out["architectures"] = {family.class_name};
  out["model_type"] = family.model_type;
  out["torch_dtype"] = dtype_name(c.dtype);
  out["vocab_size"] = c.vocab_size;
  family.write(c, out);
  out["tie_word_embeddings"] = c.tie_embeddings;
  out["initializer_range"] = c.initializer_range;
  out["bos_token_id"] = c.bos_id ? Ordered(*c.bos_id) : Ordered(nullptr);
  out["eos_token_id"] = ids(c.eos_ids);
  out["pad_token_id"] = c.pad_id ? Ordered(*c.pad_id) : Ordered(nullptr);
  out["use_cache"] = true;
  return out.dump(2) + "\n";
}

std::string generation_config_json(const GenerationConfig& g) {
  Ordered out = Ordered::object();
  const auto put = [&](const char* key, const auto& value) {
    if (value) out[key] = *value;
  };
  put("bos_token_id", g.bos_id);
  if (!g.eos_ids.empty()) out["eos_token_id"] = ids(g.eos_ids);
  put("pad_token_id", g.pad_id);
  put("do_sample", g.do_sample);
  put("temperature", g.temperature);
  put("top_k", g.top_k);
  put("top_p", g.top_p);
  put("min_p", g.min_p);
  put("repetition_penalty", g.repetition_penalty);
  put("max_new_tokens", g.max_new_tokens);
  return out.dump(2) + "\n";
}

std::string generation_config_json(const std::string& folder, const ModelConfig& config) {
  const std::filesystem::path file = std::filesystem::path(folder) / "generation_config.json";
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::exists(file, ignored)) {
    GenerationConfig fresh = folder.empty() ? GenerationConfig{} : read_generation_config(folder);  // `folder` may be a GGUF file
    fresh.bos_id = config.bos_id;
    fresh.pad_id = config.pad_id;
    fresh.eos_ids = config.eos_ids;
    return generation_config_json(fresh);
  }
  const MappedFile text(file.string());
  Ordered out = Ordered::parse(std::string_view(reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size()));
  const auto put = [&](const char* key, const Ordered& id) { id.is_null() ? void(out.erase(key)) : void(out[key] = id); };
  put("bos_token_id", config.bos_id ? Ordered(*config.bos_id) : Ordered(nullptr));
  put("eos_token_id", ids(config.eos_ids));
  put("pad_token_id", config.pad_id ? Ordered(*config.pad_id) : Ordered(nullptr));
  return out.dump(2) + "\n";
}

}  // namespace weft
