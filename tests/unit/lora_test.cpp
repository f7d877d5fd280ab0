// Low-rank adapters: their result, their training, and the folder format of PEFT.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/golden_model.h"
#include "tests/unit/model_cases.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRank = 3;

class Lora : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device("cpu", {.checked = true});
  fs::path root =
      fs::path(testing::TempDir()) / ("weft_lora_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));

  void SetUp() override { fs::create_directories(root); }
  void TearDown() override { fs::remove_all(root); }

  std::string folder(const std::string& name) const { return (root / name).string(); }
  Tensor ids() { return Tensor::from_host(*device, {2, 5}, std::vector<int32_t>{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}); }
  Tensor targets() { return Tensor::from_host(*device, {2, 5}, std::vector<int32_t>{1, 4, 1, 5, 9, 2, 6, 5, 3, 5}); }
  static LoraOptions lora(std::vector<std::string> targets = {"all-linear"}) {
    return {.rank = kRank, .scale = 0.7, .targets = std::move(targets), .seed = 5};
  }

  // A model whose adapters have an effect: B is random like A.
  std::unique_ptr<Model> adapted(const ModelConfig& config, const LoraOptions& options, bool trainable = false, DType dtype = DType::f32) {
    auto model = make_model(config, *device, 3, {.dtype = dtype, .trainable = trainable, .lora = options});
    const NoGrad no_grad;
    const Tensor state = random_state(*device, 7);
    uint32_t site = 0;
    for (const LoraAdapter& adapter : model->adapters())
      copy(cast(uniform(*device, adapter.matrices.b.shape(), state, site++, -0.5f, 0.5f), dtype), adapter.matrices.b.detach());
    return model;
  }
  static ModelConfig config(const std::string& name) {
    for (const ModelCase& each : model_cases())
      if (each.name == name) return each.config;
    throw std::runtime_error(name);
  }
  template <class F>
  static std::string error_of(F f) {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

// Rounding changes a sum of K products by at most K 2^-24 of the sum of their magnitudes, and a block has four such layers in sequence;
// norms and attention between them do not amplify it.
double bound(const ModelConfig& c) {
  return double(4 * c.layers * (std::max(c.intermediate_size, c.heads * c.head_dim) + kRank + 1)) * 0x1p-24;
}

TEST_F(Lora, new_adapter_does_not_change_the_model) {
  for (const ModelCase& each : model_cases()) {
    const auto base = make_model(each.config, *device, 3), model = make_model(each.config, *device, 3, {.lora = lora()});
    EXPECT_LE(golden::distance(model->logits(ids()).to_host<float>(), base->logits(ids()).to_host<float>()), bound(each.config))
        << each.name;
    const bool fused = each.config.architecture == Architecture::gpt2 || each.config.fused_projections;
    const int64_t mixtures = each.config.layers_with_experts();  // routers and experts have no adapters
    EXPECT_EQ(int64_t(model->adapters().size()), each.config.layers * (fused ? 4 : 7) - mixtures * 3) << each.name;
  }
}

TEST_F(Lora, merged_equals_unmerged) {
  for (const ModelCase& each : model_cases()) {
    const auto model = adapted(each.config, lora());
    export_model(*model, folder(each.name));
    const auto whole = load_model(folder(each.name), *device), base = make_model(each.config, *device, 3);
    const std::vector<float> expected = model->logits(ids()).to_host<float>();
    EXPECT_LE(golden::distance(whole->logits(ids()).to_host<float>(), expected), bound(each.config)) << each.name;
    EXPECT_GT(golden::distance(base->logits(ids()).to_host<float>(), expected), 0.01) << each.name;
  }
}

std::vector<double> product(const std::vector<float>& x, const std::vector<float>& y, int64_t M, int64_t K, int64_t N, bool transpose_x,
                            bool transpose_y) {
  std::vector<double> out(size_t(M * N), 0.0);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k)
        out[size_t(m * N + n)] +=
            double(x[size_t(transpose_x ? k * M + m : m * K + k)]) * double(y[size_t(transpose_y ? n * K + k : k * N + n)]);
  return out;
}

void expect_near(const Tensor& got, const std::vector<double>& expected, double by, double scale, const std::string& what) {
  const std::vector<float> values = got.to_host<float>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  double worst = 0, largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    worst = std::max(worst, std::abs(values[i] - scale * expected[i]));
    largest = std::max(largest, std::abs(scale * expected[i]));
  }
  EXPECT_LE(worst, by * largest) << what;
}

// The merged model's gradient G of each weight gives those of the matrices: dA = s B^T G, dB = s G A^T. Both models run forward and
// backward, so the bound is that of four passes.
TEST_F(Lora, gradients_follow_from_the_merged_weights) {
  for (const ModelCase& each : model_cases())
    for (bool recomputed : {false, true}) {
      const auto model = adapted(each.config, lora(), true);
      export_model(*model, folder(each.name));
      const auto whole = load_model(folder(each.name), *device, {.trainable = true});
      for (Model* m : {model.get(), whole.get()}) backward(m->loss(ids(), targets(), {.recompute = recomputed}));
      for (const NamedTensor& p : model->parameters()) EXPECT_FALSE(p.tensor.requires_grad()) << p.name;
      for (const LoraAdapter& adapter : model->adapters()) {
        const auto weight =
            std::ranges::find_if(whole->parameters(), [&](const NamedTensor& p) { return p.name == adapter.layer + ".weight"; });
        ASSERT_NE(weight, whole->parameters().end()) << adapter.layer;
        const std::vector<float> g = weight->tensor.grad().to_host<float>(), a = adapter.matrices.a.to_host<float>(),
                                 b = adapter.matrices.b.to_host<float>();
        const int64_t in = adapter.matrices.a.shape()[1], out = adapter.matrices.b.shape()[0];
        const bool t = adapter.transposed;  // G is [in, out]
        expect_near(adapter.matrices.a.grad(), product(b, g, kRank, out, in, true, t), 4 * bound(each.config), 0.7,
                    each.name + " dA " + adapter.layer);
        expect_near(adapter.matrices.b.grad(), product(g, a, out, in, kRank, t, true), 4 * bound(each.config), 0.7,
                    each.name + " dB " + adapter.layer);
      }
    }
}

TEST_F(Lora, selected_layers_with_recompute) {
  for (const char* target : {"down_proj", "layers.1.self_attn.q_proj"}) {
    const auto plain = adapted(config("llama_untied"), lora({target}), true), again = adapted(config("llama_untied"), lora({target}), true);
    backward(plain->loss(ids(), targets()));
    backward(again->loss(ids(), targets(), {.recompute = true}));
    for (size_t i = 0; i < plain->adapters().size(); ++i)
      EXPECT_EQ(plain->adapters()[i].matrices.a.grad().to_host<float>(), again->adapters()[i].matrices.a.grad().to_host<float>()) << target;
  }
}

TEST_F(Lora, saved_adapter_has_the_format_of_peft) {
  const auto model = adapted(config("gpt2"), lora({"c_attn", "attn.c_proj"}));
  export_model(*make_model(config("gpt2"), *device, 3), folder("base"));
  save_adapter(*model, folder("adapter"), "some/base");
  const SafeTensors file(folder("adapter") + "/adapter_model.safetensors");
  EXPECT_EQ(file.entries().size(), 8u);
  EXPECT_EQ(file.at("base_model.model.transformer.h.1.attn.c_attn.lora_A.weight").shape, (Shape{kRank, 24}));
  EXPECT_EQ(file.at("base_model.model.transformer.h.1.attn.c_attn.lora_B.weight").shape, (Shape{72, kRank}));
  EXPECT_EQ(file.at("base_model.model.transformer.h.0.attn.c_proj.lora_B.weight").shape, (Shape{24, kRank}));
  const auto json = nlohmann::json::parse(std::ifstream(folder("adapter") + "/adapter_config.json"));
  EXPECT_EQ(json["peft_type"], "LORA");
  EXPECT_EQ(json["r"], kRank);
  EXPECT_NEAR(json["lora_alpha"].get<double>(), 0.7 * kRank, 1e-6);
  EXPECT_EQ(json["target_modules"], (std::vector<std::string>{"attn.c_proj", "c_attn"}));  // mlp.c_proj has none
  EXPECT_EQ(json["fan_in_fan_out"], true);
  EXPECT_EQ(json["base_model_name_or_path"], "some/base");
  const auto back = load_model(folder("base"), *device, {}, folder("adapter"));
  EXPECT_EQ(model->logits(ids()).to_host<float>(), back->logits(ids()).to_host<float>());
}

// PEFT has no bound on the rank; k and v of this model are 24 by 12.
TEST_F(Lora, rank_of_a_stored_adapter_may_be_above_the_layer) {
  const ModelConfig c = config("qwen2");
  const auto base = make_model(c, *device, 3);
  export_model(*base, folder("base"));
  const auto model = adapted(c, lora({"k_proj"}));
  save_adapter(*model, folder("adapter"), "base");
  constexpr int64_t kWide = 40;
  const SafeTensors file(folder("adapter") + "/adapter_model.safetensors");
  std::vector<NamedTensor> wide;  // the matrices of rank 3, and zeros
  for (const auto& [name, entry] : file.entries()) {
    const bool a = name.find("lora_A") != name.npos;
    const Tensor all = zeros(*device, a ? Shape{kWide, entry.shape[1]} : Shape{entry.shape[0], kWide});
    copy(tensor_from(*device, file, name), all.part(a ? 0 : 1, 0, kRank));
    wide.push_back({name, all});
  }
  fs::create_directories(folder("wide"));
  write_safetensors(folder("wide") + "/adapter_model.safetensors", wide);
  std::ofstream(folder("wide") + "/adapter_config.json")
      << nlohmann::json{{"peft_type", "LORA"}, {"r", kWide}, {"lora_alpha", 0.7 * kWide}};
  const auto loaded = load_model(folder("base"), *device, {}, folder("wide"));
  EXPECT_LE(golden::distance(loaded->logits(ids()).to_host<float>(), model->logits(ids()).to_host<float>()), bound(c));
}

TEST_F(Lora, errors_name_the_values) {
  const auto make = [&](const LoraOptions& options) {
    return error_of([&] { make_model(config("gpt2"), *device, 3, {.lora = options}); });
  };
  EXPECT_EQ(make(lora({"q_proj"})), "lora: no layer of the model is named 'q_proj'; there are c_attn, c_fc, c_proj");
  EXPECT_NE(make({.rank = 25, .scale = 1, .targets = {"c_attn"}}).find("rank is 25"), std::string::npos);

  export_model(*make_model(config("qwen2"), *device, 3), folder("base"));
  const auto model = adapted(config("qwen2"), lora({"q_proj"}));
  const auto load = [&](const char* changed, const nlohmann::json& value) {
    save_adapter(*model, folder("adapter"), "base");
    auto json = nlohmann::json::parse(std::ifstream(folder("adapter") + "/adapter_config.json"));
    json[changed] = value;
    std::ofstream(folder("adapter") + "/adapter_config.json") << json;
    return error_of([&] { load_model(folder("base"), *device, {}, folder("adapter")); });
  };
  EXPECT_EQ(load("use_rslora", true), "no error");
  EXPECT_NE(load("use_dora", true).find("use_dora"), std::string::npos);
  EXPECT_NE(load("modules_to_save", {"lm_head"}).find("modules_to_save"), std::string::npos);
  EXPECT_NE(load("peft_type", "IA3").find("IA3"), std::string::npos);
  EXPECT_NE(load("bias", "all").find("bias"), std::string::npos);
  for (int rank : {2, 6, 1 << 20}) {  // nothing is allocated for a rank that the file does not have
    EXPECT_NE(load("r", rank).find("lora_A.weight' of shape 3x24"), std::string::npos) << load("r", rank);
    EXPECT_NE(load("r", rank).find(join("adapter_config.json is ", rank)), std::string::npos) << load("r", rank);
    const auto base = load_model(folder("base"), *device);
    EXPECT_NE(error_of([&] { add_adapter(*base, "other", folder("adapter")); }).find("of shape 3x24"), std::string::npos)
        << "as a named one";
  }

  save_adapter(*model, folder("adapter"), "base");
  const auto with = [&](const std::vector<NamedTensor>& tensors) {
    write_safetensors(folder("adapter") + "/adapter_model.safetensors", tensors);
    return error_of([&] { load_model(folder("base"), *device, {}, folder("adapter")); });
  };
  const std::string layer = "base_model.model.model.layers.0.self_attn.q_proj";
  const LowRank& m = model->adapters()[0].matrices;
  EXPECT_NE(with({{layer + ".lora_A.weight", m.a}}).find("lora_B"), std::string::npos);
  EXPECT_NE(with({{layer + ".lora_A.weight", m.a}, {layer + ".lora_B.weight", m.b}, {"lm_head.weight", m.b}}).find("'lm_head.weight'"),
            std::string::npos);
  EXPECT_NE(with({{"base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight", m.a}}).find("layers.9"), std::string::npos);
  fs::remove(folder("adapter") + "/adapter_config.json");
  EXPECT_NE(with({}).find("adapter_config.json"), std::string::npos);
}

// The settings that PEFT 0.21 writes for LoraConfig() beyond those of save_adapter.
TEST_F(Lora, unsupported_settings_are_named) {
  export_model(*make_model(config("qwen2"), *device, 3), folder("base"));
  save_adapter(*adapted(config("qwen2"), lora({"q_proj"})), folder("adapter"), "base");
  const std::string path = folder("adapter") + "/adapter_config.json";
  auto usual = nlohmann::json::parse(std::ifstream(path));
  usual.update(nlohmann::json::parse(
      R"({"alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null, "auto_mapping": null, "corda_config": null,
    "ensure_weight_tying": false, "eva_config": null, "exclude_modules": null, "kasa_config": null, "layer_replication": null, "layers_pattern": null,
    "layers_to_transform": [0, 1], "loftq_config": {}, "lora_bias": false, "megatron_config": null, "megatron_core": "megatron.core", "peft_version": "0.21.2",
    "qalora_group_size": 16, "rank_pattern": {}, "revision": "main", "target_parameters": null, "trainable_token_indices": null, "use_qalora": false})"));
  const auto load = [&](const char* key, const nlohmann::json& value) {
    auto json = usual;
    json[key] = value;
    std::ofstream(path) << json;
    return error_of([&] { load_model(folder("base"), *device, {}, folder("adapter")); });
  };
  for (const nlohmann::json& start :
       {nlohmann::json(true), nlohmann::json(false), nlohmann::json("gaussian"), nlohmann::json("eva"), nlohmann::json("orthogonal")})
    EXPECT_EQ(load("init_lora_weights", start), "no error") << start;
  for (const char* start : {"pissa", "pissa_niter_16", "olora", "corda", "lora_ga"}) {
    const std::string message = load("init_lora_weights", start);
    EXPECT_NE(message.find(join("$.init_lora_weights is '", start, "'")), std::string::npos) << message;
    EXPECT_NE(message.find("path_initial_model_for_weight_conversion"), std::string::npos) << message;
  }
  EXPECT_NE(load("init_lora_weights", "loftq").find("quantised"), std::string::npos);
  EXPECT_NE(load("init_lora_weights", "newest").find("is 'newest', expected"), std::string::npos);
  EXPECT_NE(load("alora_invocation_tokens", {1, 2}).find("aLoRA"), std::string::npos);
  const std::pair<const char*, nlohmann::json> used[] = {{"use_dora", true},
                                                         {"lora_bias", true},
                                                         {"rank_pattern", {{"q_proj", 4}}},
                                                         {"alpha_pattern", {{"q_proj", 4}}},
                                                         {"layer_replication", {{0, 1}, {0, 2}}},
                                                         {"target_parameters", {"gate"}},
                                                         {"trainable_token_indices", {3}},
                                                         {"megatron_config", {{"a", 1}}},
                                                         {"use_qalora", true},
                                                         {"kasa_config", {{"beta", 1}}},
                                                         {"of_tomorrow", 0.5}};
  for (const auto& [key, value] : used)
    EXPECT_NE(load(key, value).find(join("adapter_config.json: $.", key, " is ")), std::string::npos) << load(key, value);
  // What all-linear writes for a mixture of experts: the error is about the experts, not about their ranks.
  usual["rank_pattern"] = {{".*\\.gate_up_proj", 6}};
  const std::string experts = load("target_parameters", {"down_proj", "gate_up_proj", "gate.weight"});
  EXPECT_NE(experts.find("$.target_parameters is "), std::string::npos) << experts;
  EXPECT_NE(experts.find("routers and experts"), std::string::npos) << experts;
  usual["rank_pattern"] = nlohmann::json::object();
  for (const auto& nothing : {nlohmann::json(nullptr), nlohmann::json(false), nlohmann::json::array()})
    EXPECT_EQ(load("of_tomorrow", nothing), "no error");
}

}  // namespace
}  // namespace weft
