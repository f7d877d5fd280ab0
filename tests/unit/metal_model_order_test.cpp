// The one order of sums on Metal, whole models: the logits of a position have the same bytes from a training forward pass, alone or in a
// batch, from a prompt in chunks of any size, and from decoding alone and in a batch, with an adapter that is not merged.
// WEFT_ORDER_TOKENS: decoded tokens to compare, 500 if it is not set.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "tests/unit/model_cases.h"
#include "weft/base/philox.h"

namespace weft {
namespace {

std::vector<float> host(const Tensor& x) { return contiguous(x).to_host<float>(); }

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class MetalModelOrder : public testing::Test {
 protected:
  const char* const named = std::getenv("WEFT_TEST_DEVICE");
  const std::shared_ptr<Device> device = open_device(named ? named : "metal-sim");
  PhiloxStream random{23};
  std::unique_ptr<Model> model;
  int64_t B = 1, T = 1;
  std::vector<std::vector<int32_t>> tokens;  // [B][T]
  std::vector<float> trained;                // logits [B, T, vocabulary] of a training forward pass

  Tensor ids(int64_t first_row, int64_t rows, int64_t first, int64_t last) const {
    std::vector<int32_t> all;
    for (int64_t b = first_row; b < first_row + rows; ++b)
      all.insert(all.end(), tokens[size_t(b)].begin() + first, tokens[size_t(b)].begin() + last);
    return Tensor::from_host(*device, {rows, last - first}, all);
  }

  void make(const ModelConfig& config, DType dtype, bool adapted) {
    ModelOptions options{.dtype = dtype, .trainable = true};
    if (adapted) options.lora = LoraOptions{.rank = 5, .scale = 0.7, .targets = {"all-linear"}, .seed = 5};
    model = make_model(config, *device, 3 + uint64_t(random.below(1000)), options);
    const NoGrad no_grad;
    const Tensor state = random_state(*device, 7);
    uint32_t site = 0;
    for (const LoraAdapter& adapter : model->adapters())  // B of a new adapter is zero
      copy(cast(uniform(*device, adapter.matrices.b.shape(), state, site++, -0.5f, 0.5f), dtype), adapter.matrices.b.detach());
  }

  void draw(int64_t batch, int64_t length) {
    B = batch, T = length;
    tokens.assign(size_t(B), std::vector<int32_t>(size_t(T)));
    for (auto& row : tokens)
      for (int32_t& id : row) id = int32_t(random.below(model->config().vocab_size));
    trained = host(model->logits(ids(0, B, 0, T)));  // gradients are recorded
  }

  // `logits` [V] after position t of sequence b.
  void expect(const char* from, const float* logits, int64_t b, int64_t t) {
    const int64_t V = model->config().vocab_size;
    if (std::memcmp(logits, trained.data() + (b * T + t) * V, size_t(V) * sizeof(float)) != 0)
      ADD_FAILURE() << from << ": sequence " << b << " of " << B << ", position " << t << " of " << T;
  }

  void expect_any_micro_batch() {
    const int64_t V = model->config().vocab_size;
    for (int64_t b = 0; b < B; ++b) {
      const int64_t length = 1 + random.below(T);
      const std::vector<float> alone = host(model->logits(ids(b, 1, 0, length)));
      EXPECT_TRUE(same_bytes(alone, {trained.begin() + b * T * V, trained.begin() + (b * T + length) * V})) << "training, alone " << b;
    }
  }

  // Prompts of every sequence in chunks, then one token at a time; returns the tokens compared.
  int64_t expect_alone(int64_t prompt) {
    int64_t compared = 0;
    for (int64_t b = 0; b < B; ++b) {
      KvCache cache = model->make_cache(1, T + random.below(40));
      for (int64_t t = 0; t < prompt;) {
        const int64_t next = std::min(prompt, t + 1 + random.below(random.below(3) == 0 ? 90 : 5));
        expect("chunk of a prompt", host(model->last_logits(ids(b, 1, t, next), cache)).data(), b, next - 1);
        t = next, ++compared;
      }
      DecodeStep decode(*model, cache);
      for (int64_t t = prompt; t < T; ++t, ++compared) expect("decoding alone", host(decode({tokens[size_t(b)][size_t(t)]})).data(), b, t);
    }
    return compared;
  }

  // All sequences together, each after another number of tokens of its prompt.
  int64_t expect_batched(int64_t prompt) {
    const int64_t V = model->config().vocab_size;
    KvCache cache = model->make_cache(B, T + 3);
    std::vector<int64_t> at;
    for (int64_t b = 0; b < B; ++b) at.push_back(b == 0 ? prompt : 1 + random.below(prompt));
    const std::vector<float> first = host(model->last_logits(ids(0, B, 0, prompt), cache, at));
    for (int64_t b = 0; b < B; ++b) expect("padded prompts", first.data() + b * V, b, at[size_t(b)] - 1);
    DecodeStep decode(*model, cache);
    int64_t steps = T - prompt;
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<int32_t> newest;
      for (int64_t b = 0; b < B; ++b) newest.push_back(tokens[size_t(b)][size_t(at[size_t(b)]++)]);
      const std::vector<float> logits = host(decode(newest));
      for (int64_t b = 0; b < B; ++b) expect("batched decoding", logits.data() + b * V, b, at[size_t(b)] - 1);
    }
    return steps * B;
  }
};

TEST_F(MetalModelOrder, training_evaluation_prompts_and_decoding_give_one_set_of_bits) {
  const char* const wanted = std::getenv("WEFT_ORDER_TOKENS");
  const int64_t most = wanted ? std::atoll(wanted) : 500;
  const std::vector<ModelCase> cases = model_cases();
  int64_t compared = 0;
  for (size_t round = 0; compared < most; ++round) {
    const ModelCase& c = cases[(round + round / cases.size()) % cases.size()];
    const DType dtype = round % 2 ? DType::f32 : DType::bf16;
    const bool adapted = round % 3 == 1, longer = round % 8 == 3;  // longer: past a segment of keys
    SCOPED_TRACE(testing::Message() << c.name << " " << dtype << (adapted ? " with an adapter" : ""));
    ModelConfig config = c.config;
    config.max_positions = 320;
    make(config, dtype, adapted);
    longer ? draw(1 + random.below(2), 250 + random.below(30)) : draw(1 + random.below(round % 5 == 4 ? 14 : 4), 6 + random.below(24));
    expect_any_micro_batch();
    {
      const NoGrad no_grad;  // evaluation
      EXPECT_TRUE(same_bytes(host(model->logits(ids(0, B, 0, T))), trained)) << "evaluation";
    }
    const int64_t prompt = longer ? T - 12 : 1 + random.below(T - 1);
    compared += expect_alone(prompt);
    compared += expect_batched(prompt);
    if (HasFailure()) break;
  }
  std::printf("%ld tokens compared\n", long(compared));
}

}  // namespace
}  // namespace weft
