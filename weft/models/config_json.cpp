#include "weft/models/config_json.h"

#include <filesystem>

#include "weft/io/json.h"
#include "weft/io/recognise.h"
#include "weft/models/families/keys.h"
#include "weft/models/gguf_config.h"

namespace weft {
namespace {

using keys::kMost;

// Why a known model type is not supported, for the error; "" for other types.
const char* reason_against(std::string_view type) {
  for (const char* each : {"qwen2_moe", "granitemoe", "granitemoeshared", "olmoe", "phimoe", "deepseek_v2", "deepseek_v3", "llama4",
                           "llama4_text", "glm4_moe"})
    if (type == each) return ", a mixture of experts";
  for (const char* each : {"qwen3_next",   "qwen3_5",          "qwen3_5_text", "qwen3_5_moe",    "qwen3_5_moe_text", "lfm2",    "lfm2_moe",
                           "lfm2_vl",      "granitemoehybrid", "olmo_hybrid",  "bailing_hybrid", "kimi_linear",      "minimax", "jamba",
                           "bamba",        "falcon_h1",        "nemotron_h",   "zamba",          "zamba2",           "mamba",   "mamba2",
                           "falcon_mamba", "recurrent_gemma",  "rwkv"})
    if (type == each) return ", a model with recurrent or convolution layers";
  for (const char* each : {"gemma3", "mistral3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "mllama"})
    if (type == each) return ", a model of text and images";
  return "";
}

std::string listed(const char* Family::* name) {
  std::string text;
  for (const Family* family : families()) text += join(text.empty() ? "" : family == families().back() ? " and " : ", ", family->*name);
  return text;
}

const Family& family_of(const JsonNode& root) {
  const auto classes = root.find("architectures");
  std::string class_name;
  if (classes) {
    const auto names = classes->elements();
    if (names.size() != 1) classes->refuse("has ", names.size(), " elements, expected one");
    class_name = names[0].text();
  }
  const std::string type = root.text_or("model_type", "");
  if (type.empty() && class_name.empty()) root.refuse("has neither 'model_type' nor 'architectures'");
  for (const Family* family : families()) {
    if (!type.empty() && type != family->model_type) continue;
    if (type.empty() && class_name != family->class_name) continue;
    if (!class_name.empty() && class_name != family->class_name)
      classes->unsupported("is '", shown(class_name), "'; of model type ", family->model_type, " only ", family->class_name,
                           " is supported");
    return *family;
  }
  if (type.empty()) classes->unsupported("is '", shown(class_name), "'; supported are ", listed(&Family::class_name));
  root.at("model_type").unsupported("is '", shown(type), "'", reason_against(type), "; supported are ", listed(&Family::model_type));
}

// Whether weights are in MXFP4, which are dequantised while loading.
bool is_mxfp4(const JsonNode& root) {
  const auto node = root.find("quantization_config");
  return node && node->value().is_object() && node->text_or("quant_method", "") == "mxfp4";
}

// Options of transformers that change the computation, each with its neutral value.
void refuse_unsupported(const JsonNode& root, const Family& family) {
  for (const char* key : {"quantization_config", "auto_map", "pruned_heads"}) {
    if (family.code_in_folder && key == std::string_view("auto_map")) continue;
    if (family.mxfp4 && key == std::string_view("quantization_config") && is_mxfp4(root)) continue;
    if (const auto node = root.find(key); node && !node->value().empty()) node->unsupported("is given; ", key, " is not supported");
  }
  for (const char* key : {"add_cross_attention", "is_encoder_decoder", "rope_interleaved", "use_bidirectional_attention"})
    if (root.boolean_or(key, false)) root.at(key).unsupported("is true; ", key, " is not supported");
}

DType read_dtype(const JsonNode& root) {
  const auto newer = root.find("dtype"), older = root.find("torch_dtype");
  if (newer && older && newer->text() != older->text())
    newer->refuse("is '", shown(newer->text()), "' and torch_dtype is '", shown(older->text()), "'");
  if (!newer && !older) return DType::f32;
  const JsonNode& node = newer ? *newer : *older;
  const std::string text = node.text();
  if (text == "float32") return DType::f32;
  if (text == "bfloat16") return DType::bf16;
  if (text == "float16") return DType::f16;
  node.unsupported("is '", shown(text), "'; supported are float32, bfloat16 and float16");
}

// Older files write -1 for none.
std::vector<int64_t> read_ids(const JsonNode& root, const std::string& key) {
  const auto node = root.find(key);
  if (!node) return {};
  std::vector<int64_t> ids;
  for (const JsonNode& id : node->value().is_array() ? node->elements() : std::vector{*node})
    if (id.integer(-1, kMost) != -1) ids.push_back(id.integer(-1, kMost));
  return ids;
}

std::optional<int64_t> read_id(const JsonNode& root, const std::string& key) {
  const auto ids = read_ids(root, key);
  if (ids.size() > 1) root.at(key).refuse("has ", ids.size(), " elements, expected one");
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

constexpr JsonLimits kLimits{.bytes = size_t(16) << 20, .depth = 32};

ModelConfig config_of_text_model(const JsonNode& root) {
  ModelConfig c;
  const Family& family = family_of(root);
  c.architecture = family.architecture;
  refuse_unsupported(root, family);
  c.vocab_size = root.at("vocab_size").integer(1, kMost);
  c.dtype = read_dtype(root);
  c.bos_id = read_id(root, "bos_token_id");
  c.pad_id = read_id(root, "pad_token_id");
  c.eos_ids = read_ids(root, "eos_token_id");
  c.initializer_range = root.number_or("initializer_range", 0.02);
  family.read(root, c);
  try {
    check_config(c, root.file());
  } catch (const Error& error) {  // invalid sizes in a file are reported as a bad file
    const std::string_view message = error.what();
    const std::string prefix = error.where() + ": ";
    fail(ErrorCode::bad_file, root.file(), message.starts_with(prefix) ? message.substr(prefix.size()) : message);
  }
  return c;
}

ModelConfig config_of(const JsonNode& root) {
  const auto text = text_document(root.object());
  if (!text) return config_of_text_model(root);
  refuse_unsupported(root, {});
  return config_of_text_model(JsonNode(root.file(), *text).at(kTextConfig));
}

GenerationConfig generation_of(const JsonNode& root) {
  GenerationConfig g;
  g.bos_id = read_id(root, "bos_token_id");
  g.pad_id = read_id(root, "pad_token_id");
  g.eos_ids = read_ids(root, "eos_token_id");
  const auto number = [&](const char* key, double least, double most) -> std::optional<double> {
    const auto node = root.find(key);
    if (!node) return std::nullopt;
    const double value = node->number();
    if (!(value >= least && value <= most)) node->refuse("is ", value, ", expected ", least, " to ", most);
    return value;
  };
  if (const auto node = root.find("do_sample")) g.do_sample = node->boolean();
  g.temperature = number("temperature", 0, 1e6);
  g.top_p = number("top_p", 0, 1);
  g.min_p = number("min_p", 0, 1);
  g.repetition_penalty = number("repetition_penalty", 0, 1e6);
  if (g.repetition_penalty == 0) root.at("repetition_penalty").refuse("is 0, expected a number above 0 (1: none)");
  if (const auto node = root.find("top_k")) g.top_k = node->integer(0, kMost);
  if (const auto node = root.find("max_new_tokens")) g.max_new_tokens = node->integer(0, kMost);
  return g;
}

}  // namespace

ModelConfig parse_model_config(std::string_view json, const std::string& file) {
  const Json document = parse_json(file, json, kLimits);
  return config_of(JsonNode(file, document));
}

ModelConfig read_model_config(const std::string& path) {
  if (is_gguf(path)) return gguf_model_config(Gguf(path));
  const std::string file = is_directory(path) ? expected_in_folder(path, "config.json") : path;
  const Json document = read_json(file, kLimits);
  return config_of(JsonNode(file, document));
}

GenerationConfig parse_generation_config(std::string_view json, const std::string& file) {
  const Json document = parse_json(file, json, kLimits);
  return generation_of(JsonNode(file, document));
}

GenerationConfig read_generation_config(const std::string& path) {
  if (is_gguf(path)) return gguf_generation_config(Gguf(path));
  const std::string file = is_directory(path) ? (std::filesystem::path(path) / "generation_config.json").string() : path;
  std::error_code ignored;
  if (file != path && !std::filesystem::exists(file, ignored)) return {};
  const Json document = read_json(file, kLimits);
  return generation_of(JsonNode(file, document));
}

SpecialIds read_special_ids(const std::string& folder) {
  if (is_gguf(folder)) return gguf_special_ids(Gguf(folder));
  SpecialIds found;
  const auto take = [&](const JsonNode& node) {
    if (!found.bos_id) found.bos_id = read_id(node, "bos_token_id");
    if (!found.pad_id) found.pad_id = read_id(node, "pad_token_id");
    if (found.eos_ids.empty()) found.eos_ids = read_ids(node, "eos_token_id");
  };
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string file = (std::filesystem::path(folder) / name).string();
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;
    const Json document = read_json(file, kLimits);
    const JsonNode root = JsonNode(file, document).object();
    take(root);
    if (const auto text = root.find(kTextConfig); text && text->value().is_object()) take(*text);
  }
  return found;
}

}  // namespace weft
