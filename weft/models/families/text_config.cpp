// Extracts the text model's config from the config.json of a model of text and images.
#include "weft/models/families/family.h"

namespace weft {
namespace {

struct Composite {
  const char *model_type, *class_name;
  const char* text_type;        // default model_type of the text model
  const char* other_text_type;  // another accepted model_type; "": none
};
constexpr Composite kComposites[] = {{"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", ""},
                                     {"mistral3", "Mistral3ForConditionalGeneration", "mistral", "ministral3"}};

// Defaults of Gemma3TextConfig: published files omit keys with these values.
const Json& gemma3_text_defaults() {
  static const Json defaults = {
      {"vocab_size", 262208},     {"hidden_size", 2304},      {"intermediate_size", 9216},         {"num_hidden_layers", 26},
      {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"max_position_embeddings", 131072}, {"bos_token_id", 2},
      {"eos_token_id", 1},        {"pad_token_id", 0}};
  return defaults;
}

const Composite* composite_of(const JsonNode& root) {
  const auto classes = root.find("architectures");
  const std::string type = root.text_or("model_type", "");
  for (const Composite& each : kComposites) {
    const bool of_class = classes && classes->value() == Json::array({each.class_name});
    if (type != each.model_type && !(type.empty() && of_class)) continue;
    if (classes && !of_class)
      classes->unsupported("is ", shown_value(classes->value()), "; of model type ", each.model_type, " only ", each.class_name,
                           " is supported");
    return &each;
  }
  return nullptr;
}

void check_type(const JsonNode& type, const Composite& composite) {
  const std::string text = type.text(), other = composite.other_text_type;
  if (text == composite.text_type || (text == other && !other.empty())) return;
  type.unsupported("is '", shown(text), "'; the text models of ", composite.model_type, " that are supported are ", composite.text_type,
                   other.empty() ? "" : " and ", other);
}

// The keys of text_config. Absent ones are dtype and tie_word_embeddings from outside of it, then the class's defaults. Token ids outside
// of it take precedence: generation ends with these.
Json completed(const JsonNode& root, const Composite& composite) {
  Json text = root.at(kTextConfig).object().value();
  text.erase("architectures");  // names the class without a head
  const auto put_absent = [&](const Json& from, const std::string& key) {
    if (from.contains(key) && !text.contains(key)) text[key] = from[key];
  };
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (const auto id = root.find(key)) text[key] = id->value();
  const bool has_dtype = text.contains("dtype") || text.contains("torch_dtype");
  for (const char* key : {"dtype", "torch_dtype"})
    if (!has_dtype) put_absent(root.value(), key);
  put_absent(root.value(), "tie_word_embeddings");
  put_absent({{"model_type", composite.text_type}}, "model_type");
  if (text["model_type"] == "gemma3_text")
    for (const auto& [key, value] : gemma3_text_defaults().items()) put_absent(gemma3_text_defaults(), key);
  return text;
}

}  // namespace

std::optional<Json> text_document(const JsonNode& root) {
  const Composite* composite = root.find(kTextConfig) ? composite_of(root) : nullptr;
  if (!composite) return std::nullopt;
  const Json document = {{kTextConfig, completed(root, *composite)}};
  check_type(JsonNode(root.file(), document).at(kTextConfig).at("model_type"), *composite);
  return document;
}

}  // namespace weft
