// Models as GGUF files: logits and ids equal those of llama.cpp, and a folder exported to GGUF and back is unchanged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/golden_model.h"
#include "tests/unit/model_cases.h"
#include "tests/unit/observed.h"
#include "weft/io/gguf.h"
#include "weft/models/families/family.h"
#include "weft/models/gguf_config.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class GgufModel : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device("cpu", {.checked = true});
  fs::path root = fs::path(testing::TempDir()) / ("weft_gguf_model_" + std::to_string(::getpid()));

  void SetUp() override {
    fs::remove_all(root);
    fs::create_directories(root);
  }
  void TearDown() override { fs::remove_all(root); }
  std::string at(const std::string& name) const { return (root / name).string(); }

  // A small model with the vocabulary of a tokenizer, and three rows more.
  std::string exported(const std::string& tokenizer) {
    ModelConfig c = model_cases()[0].config;
    c.vocab_size = TokenizerFolder(tokenizer).tokenizer().vocab_size() + 3;
    export_gguf(*make_model(c, *device, 1), at("tokenizer.gguf"), {.tokenizer = tokenizer});
    return at("tokenizer.gguf");
  }
  std::vector<float> last_logits(const std::string& path, const std::vector<int32_t>& ids, int64_t rows) {
    const auto model = load_model(path, *device);
    const auto all = model->logits(Tensor::from_host(*device, {1, int64_t(ids.size())}, ids)).to_host<float>();
    return {all.end() - rows * model->config().vocab_size, all.end()};
  }
  // A model of seven layers with these settings comes back from its file.
  template <class Change>
  void round_trip(Architecture architecture, Change change) {
    ModelConfig c = model_cases()[0].config;
    c.architecture = architecture;
    c.hidden_size = 32, c.head_dim = 8, c.heads = 4, c.kv_heads = 2, c.layers = 7;
    change(c);
    const auto model = make_model(c, *device, 5);
    export_gguf(*model, at("family.gguf"));
    const ModelFolder file(at("family.gguf"));
    if (architecture == Architecture::mistral) c.architecture = Architecture::llama;
    c.initializer_range = file.config().initializer_range;
    EXPECT_EQ(file.config(), c) << name(architecture);
    const auto loaded = file.load(*device);
    for (size_t i = 0; i < model->parameters().size(); ++i) {
      const auto a = model->parameters()[i].tensor.to_host<float>(), b = loaded->parameters()[i].tensor.to_host<float>();
      for (size_t j = 0; j < a.size(); ++j) ASSERT_NEAR(a[j], b[j], c.norm_adds_one ? 1e-6 : 0) << model->parameters()[i].name;
    }
  }
  static void expect_same_weights(const Model& a, const Model& b) {
    ASSERT_EQ(a.parameters().size(), b.parameters().size());
    for (size_t i = 0; i < a.parameters().size(); ++i) {
      EXPECT_EQ(a.parameters()[i].name, b.parameters()[i].name);
      EXPECT_EQ(a.parameters()[i].tensor.to_host<float>(), b.parameters()[i].tensor.to_host<float>()) << a.parameters()[i].name;
    }
  }
};

const std::string kGolden = WEFT_GOLDEN_GGUF;

// The families that Weft writes, each with a model in tests/golden/models, or in tests/golden/gguf/models if that one has settings that
// llama.cpp lacks.
const char* const kFamilies[] = {"llama",   "qwen2",   "qwen3", "gpt2",  "granite", "phi3",      "mixtral", "ministral3",
                                 "mistral", "smollm3", "olmo2", "olmo3", "gemma2",  "qwen3_moe", "gemma3",  "gpt_oss"};

// llama.cpp rounds activations to the dtype of the weights, or to eight bits: its own error, which grows with the layers (four of OLMo 3).
// Its GELU is a table of f16.
TEST_F(GgufModel, logits_are_those_of_llama_cpp) {
  const SafeTensors golden(kGolden + "/logits.safetensors");
  std::set<std::string_view> names;
  for (const std::string name : kFamilies) {
    const bool own = golden.contains(name + ".ids");
    const std::string folder = own ? kGolden + "/models/" + name : golden::folder(name);
    std::vector<int32_t> ids;
    if (own) {
      ids = golden::values<int32_t>(golden.at(name + ".ids"));
    } else {
      const SafeTensors expected(folder + "/expected.safetensors");
      ids = golden::values<int32_t>(expected.at("ids"));
      ids.resize(size_t(expected.at("ids").shape[1]));
    }
    const auto model = load_model(folder, *device, {.dtype = DType::f32});
    names.insert(weft::name(model->config().architecture));
    const auto near = [&](const std::string& key, const std::string& path, double bound) {
      const double distance = golden::distance(last_logits(path, ids, 2), golden::values<float>(golden.at(join(name, ".", key))));
      RecordProperty(join(name, ".", key), std::to_string(distance));
      EXPECT_LT(distance, bound) << name << " " << key;
    };
    // llama.cpp's GELU is a table of f16; OLMo 3's norms after the layers scale what bf16 rounds.
    const std::string_view family = weft::name(model->config().architecture);
    const double exact = family.starts_with("gemma") ? 1e-3 : family == "gpt2" ? 1e-4 : 1e-5, bf16 = family == "olmo3" ? 5e-2 : 3e-2;
    for (const auto& [dtype, bound] : {std::pair{"f32", exact}, {"f16", 4e-3}, {"bf16", bf16}, {"q8_0", 3e-2}}) {
      if (!golden.contains(join(name, ".", dtype))) continue;
      export_gguf(*model, at("model.gguf"), {.dtype = dtype});
      near(dtype, at("model.gguf"), bound);
    }
    if (golden.contains(name + ".q8_0")) near("q8_0.dequantised", at("model.gguf"), exact);
  }
  for (const Family* family : families()) EXPECT_TRUE(names.contains(family->model_type)) << family->model_type;
}

TEST_F(GgufModel, a_file_quantised_by_llama_cpp_is_read) {
  const SafeTensors golden(kGolden + "/logits.safetensors");
  const std::string path = kGolden + "/q4_k_m.gguf";
  std::set<std::string> types;
  const Gguf file(path);
  for (const auto& [name, entry] : file.tensors()) types.insert(entry.type->name);
  EXPECT_EQ(types, (std::set<std::string>{"F32", "Q4_K", "Q6_K"}));
  std::vector<int32_t> ids(24);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = int32_t(i) + 1;
  const auto logits = last_logits(path, ids, 2);
  EXPECT_LT(golden::distance(logits, golden::values<float>(golden.at("q4_k_m.dequantised"))), 1e-5);
  EXPECT_LT(golden::distance(logits, golden::values<float>(golden.at("q4_k_m"))), 5e-2);
  const auto bf16 = load_model(path, *device, {.dtype = DType::bf16});
  EXPECT_EQ(bf16->dtype(), DType::bf16);
}

// As gpt-oss is published: its experts in MXFP4. llama.cpp rounds activations to eight bits.
TEST_F(GgufModel, experts_in_mxfp4_are_read) {
  const SafeTensors golden(kGolden + "/logits.safetensors");
  const std::string path = kGolden + "/mxfp4.gguf";
  EXPECT_EQ(Gguf(path).tensors().at("blk.0.ffn_gate_exps.weight").type->name, std::string("MXFP4"));
  const auto logits = last_logits(path, golden::values<int32_t>(golden.at("gpt_oss.ids")), 2);
  EXPECT_LT(golden::distance(logits, golden::values<float>(golden.at("mxfp4.dequantised"))), 1e-5);
  EXPECT_LT(golden::distance(logits, golden::values<float>(golden.at("mxfp4"))), 5e-2);
}

TEST_F(GgufModel, ids_are_those_of_llama_cpp) {
  const Json rows = Json::parse(contents(kGolden + "/tokens.json"));
  int compared = 0;
  for (const auto& [name, unused] : rows[0].items()) {
    if (name == "text") continue;
    const std::string source = kGolden + "/../" + name;
    const ModelFolder file(exported(source));
    const TokenizerFolder folder(source);
    for (const Json& row : rows) {
      const std::string text = row["text"];
      const auto ids = file.tokenizer().encode(text);
      EXPECT_EQ(ids, row[name].get<std::vector<int32_t>>()) << name << " " << text;
      EXPECT_EQ(ids, folder.tokenizer().encode(text)) << name << " " << text;
      EXPECT_EQ(file.tokenizer().decode(ids, true), folder.tokenizer().decode(ids, true)) << name << " " << text;
      ++compared;
    }
    EXPECT_EQ(file.tokenizer().vocab_size(), folder.tokenizer().vocab_size());
    EXPECT_EQ(file.end_ids(), folder.end_ids()) << name;
  }
  EXPECT_GE(compared, 200);
}

TEST_F(GgufModel, every_family_round_trips) {
  int refused = 0;
  std::set<std::string_view> families;
  for (const ModelCase& each : model_cases()) {
    const auto model = make_model(each.config, *device, 7);
    try {
      export_gguf(*model, at("model.gguf"));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << each.name << error.what();
      ++refused;
      continue;
    }
    const ModelFolder file(at("model.gguf"));
    ModelConfig expected = each.config;
    expected.initializer_range = file.config().initializer_range;  // not in the file
    if (expected.architecture == Architecture::mistral) expected.architecture = Architecture::llama;
    // In the file it is a float, by what yarn has without it.
    EXPECT_NEAR(file.config().rope_scaling.attention_factor, expected.rope_scaling.attention_factor, 1e-7) << each.name;
    expected.rope_scaling.attention_factor = file.config().rope_scaling.attention_factor;
    families.insert(name(each.config.architecture));
    EXPECT_EQ(file.config(), expected) << each.name;
    EXPECT_FALSE(file.has_tokenizer());
    expect_same_weights(*file.load(*device), *model);
    for (const char* dtype : {"f16", "bf16", "q8_0"}) {
      export_gguf(*model, at("small.gguf"), {.dtype = dtype});
      EXPECT_NO_THROW(load_model(at("small.gguf"), *device)) << each.name << dtype;
    }
  }
  EXPECT_GE(refused, 3);  // llama with GELU, GPT-2 with other activations
  for (const char* family : {"llama", "qwen2", "qwen3", "gpt2", "ministral3"}) EXPECT_TRUE(families.contains(family)) << family;
}

// Settings that llama.cpp has for the families: those of published models.
TEST_F(GgufModel, published_settings_of_every_family_round_trip) {
  const auto gemma = [](ModelConfig& c) {
    c.norms = NormPlaces::around;
    c.norm_adds_one = c.tie_embeddings = true;
    c.activation = HiddenActivation::gelu_tanh;
    c.embedding_scale = std::sqrt(32.0);
    c.attention_scale = 1 / std::sqrt(8.0);
    c.window = 5;
  };
  round_trip(Architecture::mistral, [](ModelConfig&) {});
  round_trip(Architecture::granite, [](ModelConfig& c) {
    c.embedding_scale = 12, c.attention_scale = 0.25, c.residual_scale = 0.5, c.logits_divisor = 8;
    c.rope_scaling = {.kind = RopeScaling::Kind::linear, .factor = 4};
  });
  round_trip(Architecture::smollm3, [](ModelConfig& c) { c.rotary_layers = {true, true, true, false, true, true, true}; });
  round_trip(Architecture::olmo2, [](ModelConfig& c) { c.norms = NormPlaces::after, c.qk_norm = c.qk_norm_whole = true; });
  round_trip(Architecture::phi3, [](ModelConfig& c) { c.fused_projections = true; });
  round_trip(Architecture::phi3, [](ModelConfig& c) {  // as Phi-4-mini
    c.fused_projections = true, c.rotary_fraction = 0.75;
    c.rope_scaling = {.kind = RopeScaling::Kind::longrope, .factor = 4, .original_context = 12};
    c.rope_scaling.short_factors = {1, 1.1, 1.3}, c.rope_scaling.long_factors = {1.2, 2.5, 3.75};
    c.rope_scaling.attention_factor = std::sqrt(1 + std::log(4.0) / std::log(12.0));
  });
  round_trip(Architecture::phi3, [](ModelConfig& c) { c.fused_projections = true, c.rotary_fraction = 0.5; });
  round_trip(Architecture::gemma2, [&](ModelConfig& c) {
    gemma(c), c.attention_soft_cap = 50, c.logits_soft_cap = 30;
    c.window_layers = {true, false, true, false, true, false, true};
  });
  round_trip(Architecture::gemma3, [&](ModelConfig& c) {
    gemma(c), c.qk_norm = true, c.rope_theta = 1e6, c.local_rope_theta = 10000;
    c.window_layers = {true, true, true, true, true, false, true};
  });
}

TEST_F(GgufModel, published_settings_of_mixtures_round_trip) {
  round_trip(Architecture::qwen3_moe, [](ModelConfig& c) { c.qk_norm = true, c.experts = 6, c.experts_per_token = 2, c.expert_size = 24; });
  round_trip(Architecture::mixtral, [](ModelConfig& c) { c.experts = 4, c.experts_per_token = 3, c.expert_size = c.intermediate_size; });
  round_trip(Architecture::gpt_oss, [](ModelConfig& c) {
    c.attention_sinks = c.clamped_experts = c.qkv_bias = c.attention_out_bias = true;
    c.experts = 4, c.experts_per_token = 2, c.expert_size = c.intermediate_size;
    c.window = 5, c.window_layers = {true, false, true, false, true, false, true};
    c.rope_scaling = {.kind = RopeScaling::Kind::yarn, .factor = 32, .original_context = 12, .attention_factor = 0.1 * std::log(32.0) + 1};
  });
}

TEST_F(GgufModel, a_folder_comes_back) {
  for (const char* name : {"llama", "qwen3", "gpt2"}) {
    const ModelFolder source(golden::folder(name));
    const auto original = source.load(*device);
    export_gguf(*original, at("model.gguf"), {.like = source.path(), .tokenizer = source.path()});
    const ModelFolder file(at("model.gguf"));
    const auto model = file.load(*device);
    export_model(*model, at(name), {.like = file.path(), .tokenizer = file.path()});
    EXPECT_EQ(contents(at(name) + "/model.safetensors"), contents(golden::folder(name) + "/model.safetensors")) << name;
    const ModelFolder back(at(name));
    EXPECT_EQ(back.tokenizer().encode("Hello world 12"), source.tokenizer().encode("Hello world 12"));
    Generator from_folder(*original, source, {.max_tokens = 8}), from_file(*model, file, {.max_tokens = 8});
    const std::vector<std::vector<int32_t>> prompts{source.tokenizer().encode("Hello")};
    EXPECT_EQ(from_folder.run(prompts)[0].ids, from_file.run(prompts)[0].ids) << name;
  }
}

TEST_F(GgufModel, settings_and_templates_are_kept) {
  const std::string source = at("source");
  fs::create_directories(source + "/additional_chat_templates");
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) fs::copy(golden::folder("llama") + "/" + file, source);
  std::ofstream(source + "/tokenizer_config.json")
      << R"({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|pad|>", "add_bos_token": true})";
  std::ofstream(source + "/generation_config.json")
      << R"({"eos_token_id": [1, 2, 5], "do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05})";
  std::ofstream(source + "/chat_template.jinja") << "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}";
  std::ofstream(source + "/additional_chat_templates/tool_use.jinja") << "tools";
  export_gguf(*load_model(source, *device), at("model.gguf"), {.dtype = "q8_0", .like = source, .tokenizer = source});
  const ModelFolder file(at("model.gguf"));
  EXPECT_EQ(file.generation().do_sample, true);
  EXPECT_EQ(file.generation().temperature, 0.6);
  EXPECT_EQ(file.generation().top_k, 20);
  EXPECT_EQ(file.generation().top_p, 0.95);
  EXPECT_EQ(file.generation().repetition_penalty, 1.05);
  EXPECT_EQ(file.end_ids(), (std::vector<int32_t>{1, 2, 5}));
  EXPECT_EQ(file.tokenizer().before().size(), 1u);
  const auto format = file.tokenizer_folder().chat_format();
  ASSERT_TRUE(format);
  EXPECT_EQ(format->names(), (std::vector<std::string>{"default", "tool_use"}));
  Conversation talk;
  talk.add("user", "Hi");
  EXPECT_EQ(format->render(talk, true), "<s>Hi</s>");
  export_model(*file.load(*device), at("back"), {.like = file.path(), .tokenizer = file.path()});
  EXPECT_EQ(contents(at("back/chat_template.jinja")), contents(source + "/chat_template.jinja"));
  EXPECT_EQ(contents(at("back/additional_chat_templates/tool_use.jinja")), "tools");
  EXPECT_EQ(read_generation_config(at("back")).temperature, 0.6);
  EXPECT_EQ(read_generation_config(at("back")).top_k, 20);
}

// A vocabulary of bytes or characters has no pattern, and needs none.
TEST_F(GgufModel, vocabularies_of_characters_need_no_pattern) {
  fs::create_directories(at("characters"));
  std::ofstream(at("characters/tokenizer.json"))
      << R"({"added_tokens": [], "normalizer": null, "decoder": {"type": "ByteLevel"}, "post_processor": null,
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
             "model": {"type": "BPE", "vocab": {"a": 0, "1": 1, "\u00c3": 2, "\u00a9": 3, "\u00c3\u00a9": 4}, "merges": [["\u00c3", "\u00a9"]]}})";
  const ModelFolder file(exported(at("characters")));
  EXPECT_EQ(file.tokenizer().encode("a1\u00e91a"), (std::vector<int32_t>{0, 1, 4, 1, 0}));
}

// OLMo 2 has the pattern of Llama 3 as what is kept of a text.
TEST_F(GgufModel, a_split_may_remove_what_is_not_matched) {
  const std::string from = golden::folder("llama");
  Json json = Json::parse(contents(from + "/tokenizer.json"));
  json["pre_tokenizer"]["pretokenizers"][0].update({{"behavior", "Removed"}, {"invert", true}});
  fs::create_directories(at("removed"));
  std::ofstream(at("removed/tokenizer.json")) << json.dump();
  const ModelFolder file(exported(at("removed")));
  const TokenizerFolder folder(at("removed"));
  for (const char* text : {"Hello world 1234", "  don't\n\n stop\t", "\u00e9\u4e2d\u6587!?"})
    EXPECT_EQ(file.tokenizer().encode(text), folder.tokenizer().encode(text)) << text;
  json["pre_tokenizer"]["pretokenizers"][0]["invert"] = false;
  std::ofstream(at("removed/tokenizer.json")) << json.dump();
  EXPECT_NE(message_of([&] { exported(at("removed")); }).find("is the step 'Split'"), std::string::npos);
}

TEST_F(GgufModel, tokenizers_that_llama_cpp_lacks_are_refused) {
  const auto with = [&](const std::string& from, auto change) {
    Json json = Json::parse(contents(from + "/tokenizer.json"));
    change(json);
    fs::create_directories(at("changed"));
    std::ofstream(at("changed/tokenizer.json")) << json.dump();
    return message_of([&] { exported(at("changed")); });
  };
  const auto expect_part = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const std::string bytes = golden::folder("llama"), pieces = kGolden + "/pieces";
  expect_part(with(bytes, [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{L}+"; }),
              "$.pre_tokenizer is none of llama.cpp's pre-tokenizers that Weft supports (gpt-2, smollm,");
  expect_part(with(bytes, [](Json& j) { j["normalizer"] = {{"type", "NFKC"}}; }), "$.normalizer is the normalizer 'NFKC'");
  expect_part(with(bytes, [](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }), "sets add_prefix_space");
  expect_part(with(pieces, [](Json& j) { j["model"]["merges"].erase(40); }), "which forms the token");
  expect_part(with(pieces, [](Json& j) { j["model"]["byte_fallback"] = false; }), "has no byte_fallback");
  expect_part(with(pieces, [](Json& j) { j["normalizer"]["normalizers"].push_back({{"type", "NFC"}}); }), "is the normalizer 'NFC'");
  EXPECT_FALSE(fs::exists(at("tokenizer.gguf")));
}

TEST_F(GgufModel, wrong_models_are_named) {
  const ModelConfig config = model_cases()[0].config;
  const auto model = make_model(config, *device, 3);
  const auto metadata = [&](const char* leave_out, auto change) {
    GgufMetadata all;
    if (std::string(leave_out) != "general.architecture") all.put("general.architecture", "llama");
    put_model_config(config, all);
    change(all);
    return all;
  };
  const auto error = [&](const GgufMetadata& keys, const std::vector<GgufTensor>& tensors) {
    write_gguf(at("wrong.gguf"), keys, tensors);
    const std::string message = message_of([&] { load_model(at("wrong.gguf"), *device); });
    EXPECT_TRUE(message.starts_with(at("wrong.gguf") + ": ")) << message;
    return message.substr(std::min(message.size(), at("wrong.gguf").size() + 2));
  };
  const auto none = [](GgufMetadata&) {};
  const GgufType& f32 = gguf_type_to_write("f32");
  const GgufTensor embedding{"token_embd.weight", &f32, {61, 24}, [] { return std::vector<float>(61 * 24); }};
  GgufTensor narrow{"output_norm.weight", &f32, {23}, [] { return std::vector<float>(23); }};
  EXPECT_EQ(error(metadata("general.architecture", none), {}), "has no key 'general.architecture'");
  EXPECT_EQ(error(metadata("", none), {}), "has no tensor 'token_embd.weight'");
  EXPECT_EQ(error(metadata("", none), {embedding}), "has no tensor 'blk.0.attn_norm.weight', expected one of shape 24");
  EXPECT_EQ(error(metadata("", [](GgufMetadata& m) { m.put("llama.expert_count", uint32_t(8)); }), {embedding}),
            "has no key 'llama.expert_used_count'");
  EXPECT_EQ(error(metadata("", [](GgufMetadata& m) { m.put("llama.rope.scaling.type", "longrope"); }), {embedding}),
            "llama.rope.scaling.type is 'longrope'; none, linear, yarn and the factors of llama3 are supported");
  const GgufTensor factors{"rope_freqs.weight", &f32, {6}, [] { return std::vector<float>(6, 2); }};
  EXPECT_EQ(error(metadata("", [](GgufMetadata& m) { m.put("llama.rope.scaling.type", "linear"); }), {embedding, factors}),
            "llama.rope.scaling.type is 'linear' beside the tensor 'rope_freqs.weight'");
  GgufMetadata other;
  other.put("general.architecture", "bert");
  EXPECT_EQ(error(other, {}),
            "general.architecture is 'bert'; supported are llama, qwen2, qwen3, qwen3moe, mistral3, gpt-oss, gpt2, granite, smollm3, "
            "olmo2, phi3, "
            "gemma2, gemma3");

  export_gguf(*model, at("model.gguf"));
  std::vector<GgufTensor> tensors;
  const Gguf file(at("model.gguf"));
  for (const auto& [name, entry] : file.tensors())
    tensors.push_back({name, &f32, entry.shape, [&entry = entry] {
                         std::vector<float> values(size_t(entry.shape.numel()));
                         to_floats(*entry.type, entry.bytes, values);
                         return values;
                       }});
  tensors.push_back({"blk.0.extra.weight", &f32, {2}, [] { return std::vector<float>(2); }});
  EXPECT_EQ(error(metadata("", none), tensors),
            "has a tensor 'blk.0.extra.weight' of shape 2 which a llama model with these keys does not have");
  tensors.pop_back();
  for (GgufTensor& tensor : tensors)
    if (tensor.name == narrow.name) tensor = narrow;
  EXPECT_EQ(error(metadata("", none), tensors), "tensor 'output_norm.weight' has shape 23, expected 24");
}

}  // namespace
}  // namespace weft
