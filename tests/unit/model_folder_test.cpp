// Model folders: an export equals what was loaded, variants of real folders are read, errors are named.
#include "weft/models/load.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/golden_model.h"
#include "tests/unit/model_cases.h"
#include "weft/io/safetensors_writer.h"
#include "weft/models/config_json.h"
#include "weft/models/expert_tensors.h"
#include "weft/ops/fill/fill.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Named = std::vector<NamedTensor>;

class ModelFolder : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device("cpu", {.checked = true});
  fs::path root = fs::path(testing::TempDir()) / ("weft_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));

  void SetUp() override {
    fs::remove_all(root);
    fs::create_directories(root);
  }
  void TearDown() override { fs::remove_all(root); }

  std::string folder(const std::string& name) const { return (root / name).string(); }
  Tensor ids() { return Tensor::from_host(*device, {1, 5}, std::vector<int32_t>{3, 1, 4, 1, 5}); }

  static Named tensors(const Model& model, DType dtype = DType::f32) {
    Named list;
    for (const NamedTensor& p : model.parameters()) list.push_back({p.name, cast(p.tensor.detach(), dtype)});
    return list;
  }
  std::string write(const std::string& name, const ModelConfig& config, const Named& list) {
    fs::create_directories(folder(name));
    std::ofstream(folder(name) + "/config.json") << model_config_json(config);
    write_safetensors(folder(name) + "/model.safetensors", list, {{"format", "pt"}});
    return folder(name);
  }
  static ModelConfig config(const std::string& name) {
    for (const ModelCase& each : model_cases())
      if (each.name == name) return each.config;
    throw std::runtime_error(name);
  }
  std::string error_of(const std::string& path, ErrorCode code = ErrorCode::bad_file) {
    try {
      load_model(path, *device);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "no error";
  }
  static void expect_words(const std::string& text, const std::vector<std::string>& words) {
    for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' in: " << text;
  }
};

TEST_F(ModelFolder, exported_golden_model_is_bytewise_equal) {
  for (const char* name : {"llama", "qwen3", "gpt2"}) {
    const std::string from = golden::folder(name), to = folder(name);
    export_model(*load_model(from, *device), to, {.like = from});
    const SafeTensors before(from + "/model.safetensors"), after(to + "/model.safetensors");
    ASSERT_EQ(before.entries().size(), after.entries().size());
    for (const auto& [tensor, entry] : before.entries()) {
      EXPECT_EQ(entry.shape, after.at(tensor).shape);
      EXPECT_TRUE(std::equal(entry.bytes.begin(), entry.bytes.end(), after.at(tensor).bytes.begin(), after.at(tensor).bytes.end()))
          << tensor;
    }
    EXPECT_EQ(read_model_config(from), read_model_config(to));
    for (const char* file : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
      const MappedFile a(from + "/" + file), b(to + "/" + file);
      EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end())) << file;
    }
    EXPECT_THROW(export_model(*load_model(from, *device), from, {.like = from}), Error);
  }
}

// The families' folders of transformers, which have no tokenizer.
TEST_F(ModelFolder, every_family_is_exported_bytewise_equal) {
  for (const std::string& name : golden::models()) {
    const std::string from = golden::folder(name), to = folder(name);
    export_model(*load_model(from, *device), to);
    const SafeTensors before(from + "/model.safetensors"), after(to + "/model.safetensors");
    EXPECT_EQ(before.entries().size(), after.entries().size()) << name;
    for (const auto& [tensor, entry] : before.entries())
      EXPECT_TRUE(entry.shape == after.at(tensor).shape && std::ranges::equal(entry.bytes, after.at(tensor).bytes))
          << name << " " << tensor;
    EXPECT_EQ(read_model_config(from), read_model_config(to)) << name;
  }
}

TEST_F(ModelFolder, fused_tensors_of_the_wrong_size) {
  const ModelConfig c = config("phi3");
  const Named good = tensors(*make_model(c, *device, 3));
  for (const auto& [name, expected] :
       {std::pair{"model.layers.1.self_attn.qkv_proj.weight", "64x24"}, {"model.layers.0.mlp.gate_up_proj.weight", "80x24"}}) {
    Named wrong = good;
    for (auto& each : wrong)
      if (each.name == name) each.tensor = zeros(*device, {40, 24});
    expect_words(error_of(write("wrong", c, wrong)), {"model.safetensors", name, "has shape 40x24, expected ", expected});
  }
}

// One tensor for all experts of a layer, as a state_dict of transformers has them.
TEST_F(ModelFolder, stacked_experts) {
  for (const char* name : {"qwen3_moe", "mixtral"}) {
    const auto model = make_model(config(name), *device, 3);
    const auto loaded = load_model(write("stacked", config(name), tensors(*model)), *device);
    EXPECT_EQ(model->logits(ids()).to_host<float>(), loaded->logits(ids()).to_host<float>()) << name;
    Named wrong = tensors(*model);
    for (auto& each : wrong)
      if (each.name == "model.layers.1.mlp.experts.gate_up_proj") each.tensor = zeros(*device, {3, 24, 24});
    expect_words(error_of(write("wrong", config(name), wrong)),
                 {"model.safetensors", "model.layers.1.mlp.experts.gate_up_proj", "has shape 3x24x24, expected "});
  }
}

TEST_F(ModelFolder, missing_expert) {
  const ModelConfig c = config("mixtral");
  const auto model = make_model(c, *device, 3);
  export_model(*model, folder("whole"));
  const SafeTensors file(folder("whole") + "/model.safetensors");
  Named some;
  for (const auto& [name, entry] : file.entries())
    if (name != "model.layers.0.block_sparse_moe.experts.2.w3.weight") some.push_back({name, tensor_from(*device, file, name)});
  expect_words(error_of(write("some", c, some)), {"no tensor 'model.layers.0.block_sparse_moe.experts.2.w3.weight'", "40x24"});
}

// gpt-oss is published with the matrices of its experts in MXFP4: 32 elements have a common power of two.
TEST_F(ModelFolder, mxfp4_experts) {
  ModelConfig c = config("gpt_oss");
  c.hidden_size = 64;
  c.intermediate_size = c.expert_size = 32;
  const auto model = make_model(c, *device, 3);
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::map<std::string, std::vector<float>> expected;
  Named stored;
  for (const auto& [name, tensor] : tensors(*model)) {
    if (!name.ends_with("_proj") || name.find("experts") == name.npos) {
      stored.push_back({name, tensor});
      continue;
    }
    const int64_t E = tensor.shape()[0], in = tensor.shape()[1], out = tensor.shape()[2];
    std::vector<uint8_t> blocks(size_t(E * in * out / 2)), scales(size_t(E * in * out / 32));
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = uint8_t(i * 37 + i / 7);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = uint8_t(120 + i % 11);
    std::vector<float> wide(size_t(E * in * out));
    for (int64_t e = 0; e < E; ++e)
      for (int64_t o = 0; o < out; ++o)
        for (int64_t i = 0; i < in; ++i) {
          const int64_t at = (e * out + o) * in + i;
          const int half = i % 2 ? blocks[size_t(at / 2)] >> 4 : blocks[size_t(at / 2)] & 15;
          wide[size_t((e * in + i) * out + o)] =
              (half & 8 ? -1.0f : 1.0f) * values[half & 7] * std::exp2(float(scales[size_t(at / 32)]) - 127);
        }
    expected[name] = wide;
    stored.push_back({name + "_blocks", Tensor::from_host(*device, {E, out, in / 32, 16}, blocks)});
    stored.push_back({name + "_scales", Tensor::from_host(*device, {E, out, in / 32}, scales)});
  }
  const auto loaded = load_model(write("mxfp4", c, stored), *device);
  size_t compared = 0;
  for (const NamedTensor& p : loaded->parameters()) {
    if (!expected.contains(p.name)) continue;
    EXPECT_EQ(p.tensor.to_host<float>(), expected[p.name]) << p.name;
    ++compared;
  }
  EXPECT_EQ(compared, 4u);
  for (auto& each : stored)
    if (each.name == "model.layers.0.mlp.experts.down_proj_scales") each.tensor = zeros(*device, {4, 64, 2}, DType::u8);
  expect_words(error_of(write("mxfp4", c, stored)), {"down_proj_scales", "has shape 4x64x2, expected 4x64x1"});
}

TEST_F(ModelFolder, mxfp4_values) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  constexpr int64_t kIn = 96, kOut = 131;  // the last tile has three rows
  std::vector<uint8_t> blocks(kOut * kIn / 2), scales(kOut * kIn / 32);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = uint8_t(i * 37 + i / 7);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = uint8_t(i * 5);  // every one of 256, the smallest and the largest among them
  std::vector<float> values(kIn * kOut), expected(values.size());
  mxfp4_to_floats(blocks, scales, kIn, kOut, values.data());
  for (int64_t row = 0; row < kOut; ++row)
    for (int64_t i = 0; i < kIn; ++i) {
      const int64_t at = row * kIn + i;
      const uint8_t two = blocks[size_t(at / 2)];
      expected[size_t(i * kOut + row)] = std::ldexp(kValues[i % 2 ? two >> 4 : two & 15], int(scales[size_t(at / 32)]) - 127);
    }
  EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0);
}

// Gemma 3 and Mistral 3 with images: the text model's tensors have a prefix, those of the other parts are left.
TEST_F(ModelFolder, text_models_of_models_of_text_and_images) {
  struct Kind {
    const char *name, *type, *class_name;
  };
  for (const Kind& kind :
       {Kind{"gemma3", "gemma3", "Gemma3ForConditionalGeneration"}, Kind{"ministral3", "mistral3", "Mistral3ForConditionalGeneration"}})
    for (const char* prefix : {"language_model.model.", "model.language_model."}) {
      const auto model = make_model(config(kind.name), *device, 3);
      Named list;
      for (const auto& [name, tensor] : tensors(*model))
        list.push_back({name.starts_with("model.")             ? prefix + name.substr(6)
                        : std::string(prefix).starts_with("l") ? "language_model." + name
                                                               : name,
                        tensor});
      list.push_back({"vision_tower.encoder.weight", zeros(*device, {3, 5})});
      list.push_back({"model.multi_modal_projector.weight", zeros(*device, {2})});
      const std::string path = write("images", config(kind.name), list);
      auto text = nlohmann::json::parse(model_config_json(config(kind.name)));
      text.erase("tie_word_embeddings");  // the head that is stored decides
      const nlohmann::json whole = {{"model_type", kind.type}, {"architectures", {kind.class_name}}, {"text_config", text}};
      std::ofstream(path + "/config.json") << whole;
      const auto loaded = load_model(path, *device);
      EXPECT_EQ(model->logits(ids()).to_host<float>(), loaded->logits(ids()).to_host<float>()) << kind.name << prefix;
      EXPECT_EQ(loaded->config().tie_embeddings, config(kind.name).tie_embeddings);
      export_model(*loaded, folder("text"));
      EXPECT_EQ(read_model_config(folder("text")), loaded->config());
      EXPECT_EQ(load_model(folder("text"), *device)->logits(ids()).to_host<float>(), model->logits(ids()).to_host<float>());
      list.push_back({"audio_tower.weight", zeros(*device, {2})});
      write_safetensors(path + "/model.safetensors", list);
      expect_words(error_of(path), {"model.safetensors", "audio_tower.weight"});
    }
}

TEST_F(ModelFolder, settings_round_trip) {
  for (const ModelCase& each : model_cases()) {
    const auto model = make_model(each.config, *device, 3);
    export_model(*model, folder(each.name));
    const auto back = load_model(folder(each.name), *device);
    EXPECT_EQ(model->logits(ids()).to_host<float>(), back->logits(ids()).to_host<float>()) << each.name;
  }
}

TEST_F(ModelFolder, sixteen_bit_weights_are_kept) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    const auto model = make_model(config("qwen2"), *device, 3);
    export_model(*model, folder("small"), {.dtype = dtype});
    const auto loaded = load_model(folder("small"), *device);
    EXPECT_EQ(loaded->dtype(), dtype == DType::bf16 ? DType::bf16 : DType::f32);
    EXPECT_EQ(loaded->config().dtype, dtype);
    export_model(*loaded, folder("again"), {.dtype = loaded->config().dtype});
    const MappedFile a(folder("small") + "/model.safetensors"), b(folder("again") + "/model.safetensors");
    EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end()));
    // In f32 it is the model with the rounded weights.
    const auto wide = load_model(folder("small"), *device, {.dtype = DType::f32});
    EXPECT_LE(golden::distance(wide->logits(ids()).to_host<float>(), model->logits(ids()).to_host<float>()),
              dtype == DType::f16 ? 0.01 : 0.08);
    fs::remove_all(folder("small"));
    fs::remove_all(folder("again"));
  }
}

TEST_F(ModelFolder, overflowing_weights_do_not_replace_a_file) {
  const auto model = make_model(config("qwen2"), *device, 3);
  export_model(*model, folder("m"));
  const auto before = load_model(folder("m"), *device)->logits(ids()).to_host<float>();
  const NamedTensor& last = model->parameters().back();
  fill(last.tensor.detach(), 7e4);  // more than f16 holds
  try {
    export_model(*model, folder("m"), {.dtype = DType::f16});
    FAIL() << "infinite weights were written";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("model.safetensors: is not written: " + last.name + " is inf at element 0"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(read_model_config(folder("m")).dtype, DType::f32);
  EXPECT_EQ(load_model(folder("m"), *device)->logits(ids()).to_host<float>(), before);
}

// Contents of all files of a folder, by name.
std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

// Whatever is wrong with the source or the weights, a folder stays as it was, and no folder is made.
TEST_F(ModelFolder, failed_export_changes_nothing) {
  const auto model = load_model(golden::folder("llama"), *device);
  const auto refuses = [&](const Model& from, const ExportOptions& options, const std::vector<std::string>& words) {
    export_model(*make_model(config("qwen2"), *device, 3), folder("before"), {.like = golden::folder("qwen3")});
    const auto before = files_of(folder("before"));
    for (const char* to : {"before", "new/folder"}) {
      try {
        export_model(from, folder(to), options);
        ADD_FAILURE() << "written: " << to;
      } catch (const Error& error) {
        expect_words(error.what(), words);
      }
    }
    EXPECT_EQ(files_of(folder("before")), before);
    EXPECT_FALSE(fs::exists(folder("new")));
    fs::remove_all(folder("before"));
  };
  const std::string from = folder("from");
  fs::copy(golden::folder("llama"), from);
  for (const char* ids : {R"("bos_token_id": 1)", R"("bos_token_id": 0)"}) {  // with the model's ids, and with others
    std::ofstream(from + "/generation_config.json") << "{\"top_p\": 7, " << ids << "}";
    refuses(*model, {.like = from}, {"generation_config.json", "$.top_p is 7"});
  }
  fs::copy(golden::folder("llama") + "/generation_config.json", from, fs::copy_options::overwrite_existing);
  std::ofstream(from + "/merges.txt") << "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  refuses(*model, {.like = from}, {"merges.txt", "git lfs pull"});
  fs::remove(from + "/merges.txt");
  export_model(*model, folder("fine"), {.like = from});
  fill(model->parameters().back().tensor.detach(), NAN);
  refuses(*model, {.like = from}, {"model.safetensors", "is nan at element 0"});
}

TEST_F(ModelFolder, weights_are_used_from_the_mapped_file) {
  const auto model = make_model(config("llama_untied"), *device, 3);
  export_model(*model, folder("m"));
  const int64_t before = device->pool().stats().in_use;
  const auto mapped = load_model(folder("m"), *device);
  EXPECT_EQ(device->pool().stats().in_use, before);
  const auto own = load_model(folder("m"), *device, {.trainable = true});
  EXPECT_GE(device->pool().stats().in_use - before, 4 * own->config().parameter_count());
}

TEST_F(ModelFolder, shards) {
  const ModelConfig c = config("llama_untied");
  const auto model = make_model(c, *device, 3);
  const Named all = tensors(*model);
  const size_t half = all.size() / 2;
  fs::create_directories(folder("m"));
  std::ofstream(folder("m") + "/config.json") << model_config_json(c);
  write_safetensors(folder("m") + "/model-00001-of-00002.safetensors", Named(all.begin(), all.begin() + half));
  write_safetensors(folder("m") + "/model-00002-of-00002.safetensors", Named(all.begin() + half, all.end()));
  std::string map;
  for (size_t i = 0; i < all.size(); ++i)
    map += join(i ? ",\"" : "\"", all[i].name, "\":\"model-0000", i < half ? 1 : 2, "-of-00002.safetensors\"");
  std::ofstream(folder("m") + "/model.safetensors.index.json") << "{\"metadata\":{\"total_size\":1},\"weight_map\":{" << map << "}}";
  EXPECT_EQ(load_model(folder("m"), *device)->logits(ids()).to_host<float>(), model->logits(ids()).to_host<float>());
}

// GPT-2 as first published: no prefix, and masks among the weights.
TEST_F(ModelFolder, old_tensor_names) {
  const ModelConfig c = config("gpt2");
  const auto model = make_model(c, *device, 3);
  Named old;
  for (const auto& [name, value] : tensors(*model)) old.push_back({name.substr(std::string("transformer.").size()), value});
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    old.push_back({join("h.", layer, ".attn.bias"), zeros(*device, {1, 1, 4, 4})});
    old.push_back({join("h.", layer, ".attn.masked_bias"), zeros(*device, {1})});
  }
  EXPECT_EQ(load_model(write("old", c, old), *device)->logits(ids()).to_host<float>(), model->logits(ids()).to_host<float>());

  const auto tied = make_model(config("llama_tied_one_key_head"), *device, 3);
  Named head = tensors(*tied);
  head.push_back({"lm_head.weight", head[0].tensor});
  head.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", zeros(*device, {3})});
  const std::vector<float> expected = tied->logits(ids()).to_host<float>();
  EXPECT_EQ(load_model(write("both", tied->config(), head), *device)->logits(ids()).to_host<float>(), expected);
  head.erase(head.begin());
  EXPECT_EQ(load_model(write("head", tied->config(), head), *device)->logits(ids()).to_host<float>(), expected);
}

TEST_F(ModelFolder, errors_name_the_file_and_tensor) {
  const ModelConfig c = config("llama_untied");
  const Named good = tensors(*make_model(c, *device, 3));
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const auto without = [&] {
    Named list;
    for (const auto& each : good)
      if (each.name != name) list.push_back(each);
    return list;
  };
  Named missing = without(), wrong = without(), extra = good, integers = without();
  wrong.push_back({name, zeros(*device, {40, 25})});
  extra.push_back({"model.layers.0.self_attn.q_norm.weight", zeros(*device, {6})});
  integers.push_back({name, zeros(*device, {40, 24}, DType::i32)});
  expect_words(error_of(write("missing", c, missing)), {folder("missing"), name, "40x24"});
  expect_words(error_of(write("wrong", c, wrong)), {"model.safetensors", name, "40x25", "expected 40x24"});
  expect_words(error_of(write("extra", c, extra)), {"model.safetensors", "q_norm.weight", "llama"});
  expect_words(error_of(write("integers", c, integers), ErrorCode::unsupported), {"model.safetensors", name, "I32"});
  const auto tied = make_model(config("llama_tied_one_key_head"), *device, 3);
  Named other_head = tensors(*tied);
  other_head.push_back({"lm_head.weight", zeros(*device, {61, 24})});
  expect_words(error_of(write("other_head", tied->config(), other_head)),
               {"model.safetensors", "lm_head.weight", "model.embed_tokens.weight", "tie_word_embeddings"});
  EXPECT_THROW(load_model(folder("nowhere"), *device), Error);
  EXPECT_THROW(load_model(write("good", c, good), *device, {.dtype = DType::f16}), Error);
}

}  // namespace
}  // namespace weft
