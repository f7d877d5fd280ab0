// Named adapters in one engine: a sequence has the tokens and log-probabilities of a model with only its adapter, in any batch.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <map>
#include <random>

#include "tests/unit/test_device.h"
#include "weft/backends/open.h"
#include "weft/generate/engine.h"
#include "weft/generate/score.h"
#include "weft/models/adapter.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

ModelConfig small(Architecture architecture) {
  const bool gpt2 = architecture == Architecture::gpt2;
  ModelConfig c = preset(gpt2 ? "shakespeare-char" : "llama-tiny");
  c.hidden_size = 48;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = gpt2 ? 4 : 2;
  c.head_dim = 12;
  c.intermediate_size = 96;
  c.vocab_size = 211;
  c.max_positions = 160;
  c.initializer_range = 0.3;  // so that logits differ
  return c;
}

struct Models {
  std::shared_ptr<Device> device = open_device(test_device(), {.threads = 2});
  fs::path root = fs::path(testing::TempDir()) / ("weft_engine_adapters_" + std::to_string(::getpid()));
  std::map<std::string, std::unique_ptr<Model>> alone;  // by adapter
  std::unique_ptr<Model> together;

  Models(Architecture architecture, DType dtype) {
    const ModelConfig config = small(architecture);
    together = make_model(config, *device, 3, {.dtype = dtype});
    alone[""] = make_model(config, *device, 3, {.dtype = dtype});
    const bool gpt2 = architecture == Architecture::gpt2;
    add("all", config, dtype, {.rank = 3, .scale = 0.7, .targets = {"all-linear"}, .seed = 5});
    add("some", config, dtype,
        {.rank = 8, .scale = 2, .targets = {gpt2 ? "c_fc" : "q_proj", gpt2 ? "attn.c_proj" : "down_proj"}, .seed = 9});
  }
  ~Models() { fs::remove_all(root); }

  void add(const std::string& name, const ModelConfig& config, DType dtype, const LoraOptions& options) {
    auto model = make_model(config, *device, 3, {.dtype = dtype, .lora = options});
    std::mt19937 random(uint32_t(options.seed));
    for (const LoraAdapter& adapter : model->adapters()) {  // B starts at zero
      std::vector<float> values(size_t(adapter.matrices.b.numel()));
      for (float& v : values) v = float(random() % 1000) / 1000 - 0.5f;
      const NoGrad no_grad;
      copy(cast(Tensor::from_host(*device, adapter.matrices.b.shape(), values), dtype), adapter.matrices.b.detach());
    }
    save_adapter(*model, (root / name).string(), "base");
    add_adapter(*together, name, (root / name).string());
    alone[name] = std::move(model);
  }
};

struct Result {
  Ids ids;
  std::vector<uint32_t> bits;  // of the log-probabilities
  bool operator==(const Result&) const = default;
};

void take(std::map<uint64_t, Result>& results, const std::vector<EngineToken>& tokens) {
  for (const EngineToken& token : tokens) {
    results[token.sequence].ids.push_back(token.id);
    results[token.sequence].bits.push_back(std::bit_cast<uint32_t>(token.log_probability->value));
  }
}

struct Request {
  Ids prompt;
  SequenceOptions options;
};

std::vector<Request> requests(size_t count) {
  const std::string adapters[] = {"", "all", "some"};
  std::mt19937 random(7);
  std::vector<Request> all;
  for (size_t i = 0; i < count; ++i) {
    Request r;
    if (i % 2) r.prompt = all[i - 1].prompt;  // of another adapter: nothing to share
    for (size_t n = 1 + random() % 40; n > 0 && r.prompt.size() < 100; --n) r.prompt.push_back(int32_t(random() % 211));
    r.options = {.max_tokens = 1 + int64_t(random() % 20), .log_probabilities = true, .adapter = adapters[random() % 3]};
    if (i % 3) r.options.sampling = {.temperature = 1, .seed = i};
    all.push_back(r);
  }
  return all;
}

class Adapters : public testing::TestWithParam<std::pair<Architecture, DType>> {};
INSTANTIATE_TEST_SUITE_P(models, Adapters,
                         testing::Values(std::pair(Architecture::llama, DType::f32), std::pair(Architecture::llama, DType::bf16),
                                         std::pair(Architecture::gpt2, DType::f32), std::pair(Architecture::gpt2, DType::bf16)),
                         [](const auto& info) { return join(name(info.param.first), "_", info.param.second); });

TEST_P(Adapters, sequences_have_the_bits_of_their_own_adapter_alone) {
  const Models models(GetParam().first, GetParam().second);
  const std::vector<Request> all = requests(24);
  Engine engine(*models.together, {.sequences = 6, .prompt_chunk = 30, .pool = 900, .keep = true});
  std::mt19937 random(5);
  std::map<uint64_t, Result> results;
  std::vector<uint64_t> numbers;
  for (size_t next = 0; next < all.size() || !engine.idle();)
    if (next < all.size() && random() % 3 == 0)
      numbers.push_back(engine.add(all[next].prompt, all[next].options)), ++next;
    else
      take(results, engine.step());
  EXPECT_GT(engine.reused_tokens(), 0);
  for (size_t i = 0; i < all.size(); ++i) {
    const Model& model = *models.alone.at(all[i].options.adapter);
    Engine alone(model, {.sequences = 1, .prompt_chunk = 1000});
    SequenceOptions options = all[i].options;
    options.adapter.clear();
    std::map<uint64_t, Result> expected;
    alone.add(all[i].prompt, options);
    while (!alone.idle()) take(expected, alone.step());
    EXPECT_EQ(results[numbers[i]], expected.begin()->second) << "request " << i << ", adapter '" << all[i].options.adapter << "'";
    const ScoredPair pair{all[i].prompt, expected.begin()->second.ids};
    EXPECT_EQ(score(*models.together, {pair, pair}, {.adapter = all[i].options.adapter})[1], score(model, {pair})[0]);
  }
}

TEST(AdapterErrors, NameTheAdapter) {
  Models models(Architecture::llama, DType::f32);
  Model& model = *models.together;
  const auto message_of = [](const auto& f) {
    try {
      f();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  Engine engine(model, {.sequences = 1});
  EXPECT_EQ(message_of([&] { engine.add({1}, {.adapter = "other"}); }), "lora: the model has no adapter 'other'; there are all, some");
  EXPECT_EQ(message_of([&] { model.add_adapter("all", {}); }), "lora: the adapter name 'all' is empty or already used");
  EXPECT_EQ(message_of([&] { add_adapter(*models.alone["all"], "x", (models.root / "all").string()); }),
            "lora: a model made with LoRA cannot have named adapters");
  ModelConfig config = small(Architecture::llama);
  config.layers = 1;
  const auto shallow = make_model(config, *models.device, 3);
  EXPECT_EQ(message_of([&] {
              add_adapter(*shallow, "deep", (models.root / "all").string());
            }).find("lora: the adapter 'deep' is for a layer 'model.layers.1."),
            0u);
  config.hidden_size = 44;
  const auto narrow = make_model(config, *models.device, 3);
  EXPECT_NE(message_of([&] { add_adapter(*narrow, "wide", (models.root / "some").string()); }).find("the adapter 'wide'"),
            std::string::npos);
  EXPECT_TRUE(narrow->named_adapters().empty());
}

}  // namespace
}  // namespace weft
