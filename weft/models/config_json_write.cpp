// config.json as transformers reads it.
#include <charconv>
#include <filesystem>

#include "weft/io/json.h"
#include "weft/io/mapped_file.h"
#include "weft/models/config_json.h"

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

const char* activation_name(HiddenActivation activation) {
  switch (activation) {
    case HiddenActivation::silu: return "silu";
    case HiddenActivation::relu: return "relu";
    case HiddenActivation::gelu_tanh: return "gelu_new";
    case HiddenActivation::gelu_erf: return "gelu";
  }
  return "";
}

Ordered ids(const std::vector<int64_t>& list) {
  if (list.empty()) return nullptr;
  if (list.size() == 1) return list[0];
  return list;
}

// A float as the shortest text that reads back as the same float: 0.1, not 0.10000000149011612.
double shortest(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double out = value;
  std::from_chars(text, end, out);
  return out;
}

void put_llama_like(const ModelConfig& c, Ordered& out) {
  out["hidden_size"] = c.hidden_size;
  out["num_hidden_layers"] = c.layers;
  out["num_attention_heads"] = c.heads;
  out["num_key_value_heads"] = c.kv_heads;
  out["head_dim"] = c.head_dim;
  out["intermediate_size"] = c.intermediate_size;
  out["max_position_embeddings"] = c.max_positions;
  out["rms_norm_eps"] = c.norm_eps;
  out["hidden_act"] = activation_name(c.activation);
  out["attention_dropout"] = shortest(c.attention_dropout);
  out["rope_theta"] = c.rope_theta;
  if (c.rope_scaling.kind == RopeScaling::Kind::llama3)
    out["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", c.rope_scaling.factor},
                           {"low_freq_factor", c.rope_scaling.low_freq_factor},
                           {"high_freq_factor", c.rope_scaling.high_freq_factor},
                           {"original_max_position_embeddings", c.rope_scaling.original_context}};
  else
    out["rope_scaling"] = nullptr;
  if (c.architecture != Architecture::qwen2) out["attention_bias"] = c.attention_out_bias;
  if (c.architecture == Architecture::llama) out["mlp_bias"] = c.mlp_bias;
  if (c.architecture != Architecture::llama) out["use_sliding_window"] = false;
}

void put_gpt2(const ModelConfig& c, Ordered& out) {
  out["n_embd"] = c.hidden_size;
  out["n_layer"] = c.layers;
  out["n_head"] = c.heads;
  out["n_positions"] = c.max_positions;
  out["n_ctx"] = c.max_positions;
  out["n_inner"] = c.intermediate_size;
  out["layer_norm_epsilon"] = c.norm_eps;
  out["activation_function"] = activation_name(c.activation);
  out["embd_pdrop"] = shortest(c.embedding_dropout);
  out["attn_pdrop"] = shortest(c.attention_dropout);
  out["resid_pdrop"] = shortest(c.residual_dropout);
  out["scale_attn_weights"] = c.scale_attention;
  out["scale_attn_by_inverse_layer_idx"] = c.scale_by_inverse_layer;
}

const char* class_name(Architecture architecture) {
  switch (architecture) {
    case Architecture::llama: return "LlamaForCausalLM";
    case Architecture::qwen2: return "Qwen2ForCausalLM";
    case Architecture::qwen3: return "Qwen3ForCausalLM";
    case Architecture::gpt2: return "GPT2LMHeadModel";
  }
  return "";
}

}  // namespace

std::string model_config_json(const ModelConfig& c) {
  Ordered out;
  out["architectures"] = {class_name(c.architecture)};
  out["model_type"] = name(c.architecture);
  out["torch_dtype"] = dtype_name(c.dtype);
  out["vocab_size"] = c.vocab_size;
  c.architecture == Architecture::gpt2 ? put_gpt2(c, out) : put_llama_like(c, out);
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
    GenerationConfig fresh;
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
