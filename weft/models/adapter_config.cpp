#include "weft/models/adapter_config.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>

namespace weft {
namespace {

bool among(const std::string& key, std::initializer_list<std::string_view> keys) { return std::ranges::find(keys, key) != keys.end(); }

// Settings of which every value gives the same result. Layers, names and shapes come from the weights file; the model
// knows which of its matrices are stored transposed; some settings matter to training or to the first weights alone.
bool harmless(const std::string& key) {
  return among(key, {"auto_mapping", "base_model_name_or_path", "corda_config", "eva_config", "exclude_modules", "fan_in_fan_out",
                     "inference_mode", "layers_pattern", "layers_to_transform", "lora_dropout", "lora_ga_config", "megatron_core",
                     "peft_version", "qalora_group_size", "revision", "runtime_config", "target_modules", "task_type", "velora_config"});
}

// Settings that the reader uses (weft/models/adapter.cpp), or that have a check of their own below.
bool read_elsewhere(const std::string& key) {
  return among(key, {"peft_type", "bias", "r", "lora_alpha", "use_rslora", "init_lora_weights"});
}

// Null, false, zero or empty: the setting is not used.
bool unused(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "" || ((value.is_array() || value.is_object()) && value.empty());
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

// The first weights of PiSSA, OLoRA, CorDA and LoRA-GA are taken out of the base weights, and LoftQ quantises those: the
// adapter belongs to a base model that is not the one on disk.
void check_initialisation(const JsonNode& config) {
  const auto node = config.find("init_lora_weights");
  if (!node || node->value().is_boolean()) return;
  const std::string name = node->text(), kind = lower_case(name);
  if (among(kind, {"gaussian", "eva", "orthogonal", "mica"})) return;
  if (kind == "loftq")
    node->unsupported(
        "is 'loftq': the adapter was trained on a quantised base model; merge it into that model with PEFT and load the result");
  if (kind.starts_with("pissa") || kind.starts_with("corda") || among(kind, {"olora", "lora_ga"}))
    node->unsupported("is '", shown(name),
                      "': the adapter was trained on a base model with modified weights; save it with PEFT's save_pretrained(..., "
                      "path_initial_model_for_weight_conversion=...), which converts it to plain LoRA");
  node->unsupported("is '", shown(name), "', expected true, false, gaussian, eva, orthogonal or mica");
}

}  // namespace

void check_plain_lora(const JsonNode& config) {
  const std::string kind = config.object().at("peft_type").text();
  if (kind != "LORA") config.at("peft_type").unsupported("is '", shown(kind), "', expected LORA");
  if (const std::string bias = config.text_or("bias", "none"); bias != "none")
    config.at("bias").unsupported("is '", shown(bias), "', expected none");
  check_initialisation(config);
  // Checked first: PEFT also writes rank patterns for these, and their error would hide the cause.
  if (const auto node = config.find("target_parameters"); node && !unused(node->value()))
    node->unsupported("is ", shown_value(node->value()),
                      ": adapters of routers and experts are not supported (PEFT's all-linear makes them for a mixture); train it with "
                      "target_modules that name the linear layers, such as q_proj and v_proj");
  for (const auto& [key, node] : config.members()) {
    if (harmless(key) || read_elsewhere(key) || unused(node.value())) continue;
    if (key == "alora_invocation_tokens")
      node.unsupported("is set: activated LoRA (aLoRA), which applies only after these tokens, is not supported");
    node.unsupported(
        "is ", shown_value(node.value()),
        "; this setting is unknown or changes plain LoRA (two matrices per layer, one rank for all), which alone is supported");
  }
}

}  // namespace weft
