// A model family: its name in config.json, and how its keys become the options of a ModelConfig and back. Everything that a family does
// differently is such an option, so a family is two short functions (CONTRIBUTING.md, "Add a model family").
#pragma once

#include <optional>
#include <span>

#include "weft/io/json.h"
#include "weft/models/config.h"

namespace weft {

constexpr int64_t kMostLayers = 4096;  // each is objects of its own, whatever its size

struct Family {
  Architecture architecture;
  const char* model_type;
  const char* class_name;  // in transformers
  void (*read)(const JsonNode& root, ModelConfig& config);
  void (*write)(const ModelConfig& config, nlohmann::ordered_json& out);
  bool code_in_folder = false;  // published folders name a copy of the class in auto_map, which transformers does not need
  bool mxfp4 = false;           // quantization_config may say that matrices of experts are in MXFP4
};

// Of a multimodal model's config.json (Gemma 3 from 4B on, Mistral 3): a document with the text model's config alone, its defaults filled
// in, under kTextConfig. nullopt: `root` is not multimodal.
inline constexpr const char* kTextConfig = "text_config";
std::optional<Json> text_document(const JsonNode& root);

std::span<const Family* const> families();
const Family& family_of(Architecture architecture);

// The families' own files define these.
extern const Family kLlamaFamily, kQwen2Family, kQwen3Family, kGpt2Family, kMistralFamily, kMinistral3Family, kGraniteFamily,
    kSmolLm3Family, kOlmo2Family, kOlmo3Family, kPhi3Family, kGemma2Family, kGemma3Family, kQwen3MoeFamily, kMixtralFamily, kGptOssFamily;

}  // namespace weft
