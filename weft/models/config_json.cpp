#include "weft/models/config_json.h"

#include <filesystem>

#include "weft/io/json.h"
#include "weft/io/recognise.h"

namespace weft {
namespace {

constexpr int64_t kMost = (int64_t(1) << 31) - 1;

struct Family {
  Architecture architecture;
  const char* model_type;
  const char* class_name;
};
constexpr Family kFamilies[] = {
    {Architecture::llama, "llama", "LlamaForCausalLM"},
    {Architecture::qwen2, "qwen2", "Qwen2ForCausalLM"},
    {Architecture::qwen3, "qwen3", "Qwen3ForCausalLM"},
    {Architecture::gpt2, "gpt2", "GPT2LMHeadModel"},
};

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
  for (const Family& family : kFamilies) {
    if (!type.empty() && type != family.model_type) continue;
    if (type.empty() && class_name != family.class_name) continue;
    if (!class_name.empty() && class_name != family.class_name)
      classes->unsupported("is '", shown(class_name), "'; of model type ", family.model_type, " only ", family.class_name, " is supported");
    return family;
  }
  if (type.empty())
    classes->unsupported("is '", shown(class_name),
                         "'; supported are LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM and GPT2LMHeadModel");
  root.at("model_type").unsupported("is '", shown(type), "'; supported are llama, qwen2, qwen3 and gpt2");
}

// Options of transformers that change the computation, each with its neutral value.
void refuse_unsupported(const JsonNode& root) {
  for (const char* key : {"quantization_config", "auto_map", "pruned_heads"})
    if (const auto node = root.find(key); node && !node->value().empty()) node->unsupported("is given; ", key, " is not supported");
  for (const char* key : {"use_sliding_window", "add_cross_attention", "is_encoder_decoder", "rope_interleaved"})
    if (root.boolean_or(key, false)) root.at(key).unsupported("is true; ", key, " is not supported");
  if (const auto node = root.find("partial_rotary_factor"); node && node->number() != 1)
    node->unsupported("is ", node->number(), "; only 1 is supported");
  if (const auto layers = root.find("layer_types"))
    for (const JsonNode& layer : layers->elements())
      if (layer.text() != "full_attention") layer.unsupported("is '", shown(layer.text()), "'; only full_attention is supported");
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

HiddenActivation read_activation(const JsonNode& root, const std::string& key, const std::string& otherwise) {
  const std::string text = root.text_or(key, otherwise);
  if (text == "silu" || text == "swish") return HiddenActivation::silu;
  for (const char* same : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate", "gelu_python_tanh"})
    if (text == same) return HiddenActivation::gelu_tanh;
  if (text == "gelu" || text == "gelu_python") return HiddenActivation::gelu_erf;
  if (text == "relu") return HiddenActivation::relu;
  root.at(key).unsupported("is '", shown(text), "'; supported are silu, gelu_new, gelu_pytorch_tanh, gelu and relu");
}

RopeScaling read_scaling(const JsonNode& node) {
  const auto newer = node.find("rope_type"), older = node.find("type");
  if (newer && older && newer->text() != older->text())
    newer->refuse("is '", shown(newer->text()), "' and type is '", shown(older->text()), "'");
  const std::string type = newer ? newer->text() : older ? older->text() : "default";
  if (const auto part = node.find("partial_rotary_factor"); part && part->number() != 1)
    part->unsupported("is ", part->number(), "; only 1 is supported");
  for (const auto& [key, member] : node.members())
    if (member.value().is_object()) member.unsupported("is an object; positions that differ by layer are not supported");
  if (type == "default") return {};
  if (type != "llama3") (newer ? *newer : *older).unsupported("is '", shown(type), "'; supported are default and llama3");
  RopeScaling scaling{.kind = RopeScaling::Kind::llama3,
                      .factor = node.at("factor").number(),
                      .low_freq_factor = node.at("low_freq_factor").number(),
                      .high_freq_factor = node.at("high_freq_factor").number(),
                      .original_context = node.at("original_max_position_embeddings").integer(1, kMost)};
  if (!(scaling.factor >= 1)) node.at("factor").refuse("is ", scaling.factor, ", expected 1 or more");
  if (!(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor))
    node.refuse("has low_freq_factor ", scaling.low_freq_factor, " and high_freq_factor ", scaling.high_freq_factor,
                ", expected 0 < low < high");
  return scaling;
}

// rope_theta and rope_scaling as older files have them, rope_parameters as newer ones do, or rope_scaling with the theta in
// it; where several are given they must agree.
void read_rope(const JsonNode& root, ModelConfig& config) {
  const auto parameters = root.find("rope_parameters"), scaling = root.find("rope_scaling");
  std::optional<JsonNode> chosen = root.find("rope_theta");
  for (const auto& object : {parameters, scaling}) {
    const auto inner = object ? object->find("rope_theta") : std::nullopt;
    if (chosen && inner && chosen->number() != inner->number())
      inner->refuse("is ", inner->number(), " and ", chosen->path(), " is ", chosen->number());
    if (inner) chosen = inner;
  }
  if (chosen) config.rope_theta = chosen->number();
  if (chosen && !(config.rope_theta > 0)) chosen->refuse("is ", config.rope_theta, ", expected a number above 0");
  if (scaling) config.rope_scaling = read_scaling(*scaling);
  if (parameters) {
    const RopeScaling newer = read_scaling(*parameters);
    if (scaling && !(newer == config.rope_scaling)) scaling->refuse("and rope_parameters do not agree");
    config.rope_scaling = newer;
  }
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

int64_t divided(const JsonNode& node, int64_t size, int64_t heads) {
  if (size % heads != 0) node.refuse("is ", heads, ", which does not divide a hidden size of ", size);
  return size / heads;
}

void read_llama_like(const JsonNode& root, ModelConfig& c) {
  c.hidden_size = root.at("hidden_size").integer(1, kMost);
  c.layers = root.at("num_hidden_layers").integer(1, kMost);
  c.heads = root.at("num_attention_heads").integer(1, kMost);
  c.intermediate_size = root.at("intermediate_size").integer(1, kMost);
  c.max_positions = root.at("max_position_embeddings").integer(1, kMost);
  // transformers would default to 32 heads if a Qwen file omits the key; that is more likely a mistake in the file.
  if (c.architecture != Architecture::llama && !root.value().contains("num_key_value_heads")) root.refuse("has no 'num_key_value_heads'");
  c.kv_heads = root.integer_or("num_key_value_heads", c.heads, 1, kMost);
  if (const auto given = root.find("head_dim"))
    c.head_dim = given->integer(1, kMost);
  else
    c.head_dim = c.architecture == Architecture::qwen3 ? 128 : divided(root.at("num_attention_heads"), c.hidden_size, c.heads);
  c.norm_eps = root.number_or("rms_norm_eps", 1e-6);
  c.activation = read_activation(root, "hidden_act", "silu");
  c.attention_dropout = float(root.number_or("attention_dropout", 0));
  c.tie_embeddings = root.boolean_or("tie_word_embeddings", false);
  const bool bias = root.boolean_or("attention_bias", false);
  c.qkv_bias = c.architecture == Architecture::qwen2 || bias;
  c.attention_out_bias = c.architecture != Architecture::qwen2 && bias;
  c.mlp_bias = c.architecture == Architecture::llama && root.boolean_or("mlp_bias", false);
  c.qk_norm = c.architecture == Architecture::qwen3;
  read_rope(root, c);
}

void read_gpt2(const JsonNode& root, ModelConfig& c) {
  const auto size = [&](const char* own, const char* common) {
    return root.find(own) ? root.at(own).integer(1, kMost) : root.at(common).integer(1, kMost);
  };
  c.hidden_size = size("n_embd", "hidden_size");
  c.layers = size("n_layer", "num_hidden_layers");
  c.heads = c.kv_heads = size("n_head", "num_attention_heads");
  c.max_positions = size("n_positions", "max_position_embeddings");
  c.head_dim = divided(root.find("n_head") ? root.at("n_head") : root.at("num_attention_heads"), c.hidden_size, c.heads);
  c.intermediate_size = root.integer_or("n_inner", 4 * c.hidden_size, 1, kMost);
  c.norm_eps = root.number_or("layer_norm_epsilon", 1e-5);
  c.activation = read_activation(root, "activation_function", "gelu_new");
  c.embedding_dropout = float(root.number_or("embd_pdrop", 0.1));
  c.attention_dropout = float(root.number_or("attn_pdrop", 0.1));
  c.residual_dropout = float(root.number_or("resid_pdrop", 0.1));
  c.scale_attention = root.boolean_or("scale_attn_weights", true);
  c.scale_by_inverse_layer = root.boolean_or("scale_attn_by_inverse_layer_idx", false);
  c.tie_embeddings = root.boolean_or("tie_word_embeddings", true);
  c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

constexpr JsonLimits kLimits{.bytes = size_t(16) << 20, .depth = 32};

ModelConfig config_of(const JsonNode& root) {
  ModelConfig c;
  c.architecture = family_of(root).architecture;
  refuse_unsupported(root);
  c.vocab_size = root.at("vocab_size").integer(1, kMost);
  c.dtype = read_dtype(root);
  c.bos_id = read_id(root, "bos_token_id");
  c.pad_id = read_id(root, "pad_token_id");
  c.eos_ids = read_ids(root, "eos_token_id");
  c.initializer_range = root.number_or("initializer_range", 0.02);
  c.architecture == Architecture::gpt2 ? read_gpt2(root, c) : read_llama_like(root, c);
  try {
    check_config(c, root.file());
  } catch (const Error& error) {  // invalid sizes in a file are reported as a bad file
    const std::string_view message = error.what();
    const std::string prefix = error.where() + ": ";
    fail(ErrorCode::bad_file, root.file(), message.starts_with(prefix) ? message.substr(prefix.size()) : message);
  }
  return c;
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
  const std::string file = is_directory(path) ? expected_in_folder(path, "config.json") : path;
  const Json document = read_json(file, kLimits);
  return config_of(JsonNode(file, document));
}

GenerationConfig parse_generation_config(std::string_view json, const std::string& file) {
  const Json document = parse_json(file, json, kLimits);
  return generation_of(JsonNode(file, document));
}

GenerationConfig read_generation_config(const std::string& path) {
  const std::string file = is_directory(path) ? (std::filesystem::path(path) / "generation_config.json").string() : path;
  std::error_code ignored;
  if (file != path && !std::filesystem::exists(file, ignored)) return {};
  const Json document = read_json(file, kLimits);
  return generation_of(JsonNode(file, document));
}

SpecialIds read_special_ids(const std::string& folder) {
  SpecialIds found;
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string file = (std::filesystem::path(folder) / name).string();
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;
    const Json document = read_json(file, kLimits);
    const JsonNode root = JsonNode(file, document).object();
    if (!found.bos_id) found.bos_id = read_id(root, "bos_token_id");
    if (!found.pad_id) found.pad_id = read_id(root, "pad_token_id");
    if (found.eos_ids.empty()) found.eos_ids = read_ids(root, "eos_token_id");
  }
  return found;
}

}  // namespace weft
