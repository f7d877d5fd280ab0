// A step's gradients have one set of bits whoever computed its micro-batches: each alone and in any order, or whole nodes of the tree,
// added here on the host, give the bytes of TrainingStep::gradients(); sums in order do not.
#include "weft/train/gradient_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/unit/model_cases.h"
#include "tests/unit/test_device.h"
#include "weft/train/optimizers.h"
#include "weft/train/step.h"

namespace weft {
namespace {

constexpr int64_t kTokens = 9, kRows = 2;  // of a sequence; sequences in a micro-batch

using Values = std::vector<float>;  // the loss, then all gradients

bool same_bytes(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Values added(Values left, const Values& right) {
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

// The definition: split at the largest power of two below the number.
Values tree_sum(std::span<const Values> leaves) {
  if (leaves.size() == 1) return leaves[0];
  const size_t half = std::bit_floor(leaves.size() - 1);
  return added(tree_sum(leaves.first(half)), tree_sum(leaves.subspan(half)));
}

Values sum_in_order(std::span<const Values> leaves) {
  Values sum = leaves[0];
  for (const Values& leaf : leaves.subspan(1)) sum = added(sum, leaf);
  return sum;
}

std::vector<TokenBatch> sequences_of(int64_t micro_batches) {
  std::mt19937 random(7);
  std::vector<TokenBatch> sequences;
  for (int64_t i = 0; i < micro_batches * kRows; ++i) {
    TokenBatch& sequence = sequences.emplace_back(TokenBatch{.rows = 1, .tokens = kTokens, .ids = {}, .targets = {}});
    for (int64_t t = 0; t < kTokens; ++t) {
      sequence.ids.push_back(int32_t(random() % 61));
      sequence.targets.push_back(random() % 8 == 0 ? kIgnored : int32_t(random() % 61));
    }
  }
  return sequences;
}

struct Setting {
  const char* name;
  const char* model;
  DType dtype;
  bool muon = false, lora = false, recompute = false;

  friend std::ostream& operator<<(std::ostream& out, const Setting& s) { return out << s.name; }
};

// A model with dropout and what trains it.
class Training {
 public:
  explicit Training(const Setting& setting) : device_(open_device(test_device())) {
    for (const ModelCase& each : model_cases())
      if (each.name == setting.model) config_ = each.config;
    config_.embedding_dropout = config_.attention_dropout = config_.residual_dropout = 0.2f;
    ModelOptions options{.dtype = setting.dtype, .trainable = true};
    if (setting.lora) options.lora = LoraOptions{.rank = 3, .scale = 0.7, .targets = {"all-linear"}, .seed = 5, .dropout = 0.1};
    model_ = make_model(config_, *device_, 3, options);
    if (setting.muon)
      optimizer_ = std::make_unique<Muon>(model_->trainable_parameters(), MuonOptions{});
    else
      optimizer_ = std::make_unique<AdamW>(model_->trainable_parameters(), AdamWOptions{});
    step_ = std::make_unique<TrainingStep>(
        *model_, *optimizer_, StepOptions{.clip = 1, .recompute = setting.recompute, .seed = 11, .micro_batch_tokens = kRows * kTokens});
  }

  TrainingStep& step() { return *step_; }
  Values values(double loss) const {
    Values all = {float(loss)};
    for (const Parameter& p : optimizer_->parameters()) {
      const std::vector<float> grad = p.tensor.grad().to_host<float>();
      all.insert(all.end(), grad.begin(), grad.end());
    }
    return all;
  }
  // The bytes of weights and optimizer.
  std::vector<std::vector<float>> state() const {
    const NoGrad no_grad;
    std::vector<std::vector<float>> all;
    for (const Parameter& p : optimizer_->parameters()) all.push_back(cast(p.tensor.detach(), DType::f32).to_host<float>());
    for (const NamedTensor& s : optimizer_->state()) all.push_back(s.tensor.to_host<float>());
    return all;
  }

 private:
  std::shared_ptr<Device> device_;
  ModelConfig config_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<TrainingStep> step_;
};

double norm_of(const Values& values) {
  double sum = 0;
  for (size_t i = 1; i < values.size(); ++i) sum += double(values[i]) * values[i];
  return std::sqrt(sum);
}

class GradientTreeTest : public testing::TestWithParam<Setting> {};

// Two training objects of equal weights go through steps of 1, 2, 3, ... micro-batches: one computes whole steps, the other each
// micro-batch alone, in a random order.
TEST_P(GradientTreeTest, micro_batches_in_any_order_give_the_bytes_of_the_step) {
  Training whole(GetParam()), parts(GetParam());
  std::mt19937 random(3);
  for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 16}) {
    const std::vector<TokenBatch> sequences = sequences_of(n);
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Values> leaves(order.size());
    for (int64_t i : order) leaves[size_t(i)] = parts.values(parts.step().gradients_of_node(sequences, i, 1));
    const StepResult result = whole.step().gradients(sequences);
    const Values sum = whole.values(result.loss);
    EXPECT_TRUE(same_bytes(sum, tree_sum(leaves))) << n << " micro-batches";
    EXPECT_EQ(same_bytes(sum, sum_in_order(leaves)), n <= 3) << n << " micro-batches: the order of a sum shows";
    EXPECT_NEAR(result.gradient_norm, norm_of(sum), 1e-5 * norm_of(sum));
    // A step after parts of it were computed is the step itself, dropout included.
    const StepResult again = parts.step().gradients(sequences);
    EXPECT_EQ(again.loss, result.loss);
    EXPECT_EQ(again.gradient_norm, result.gradient_norm);
    whole.step().apply(1e-3);
    parts.step().apply(1e-3);
    EXPECT_EQ(whole.state(), parts.state()) << n << " micro-batches";
  }
}

// Dropout is drawn by the index of the micro-batch: equal sequences lose other values.
TEST_P(GradientTreeTest, equal_micro_batches_draw_other_dropout) {
  Training training(GetParam());
  const std::vector<TokenBatch> half = sequences_of(1);
  std::vector<TokenBatch> sequences = half;
  sequences.insert(sequences.end(), half.begin(), half.end());
  const Values first = training.values(training.step().gradients_of_node(sequences, 0, 1));
  const Values second = training.values(training.step().gradients_of_node(sequences, 1, 1));
  EXPECT_FALSE(same_bytes(first, second));
  EXPECT_TRUE(same_bytes(first, training.values(training.step().gradients_of_node(sequences, 0, 1))));
}

// Processes that own ranges compute nodes; the upper levels of the tree are added elsewhere.
TEST_P(GradientTreeTest, nodes_give_the_bytes_of_the_step) {
  Training training(GetParam());
  for (const auto& [n, width] : {std::pair<int64_t, int64_t>{8, 4}, {8, 2}, {16, 8}, {7, 4}, {7, 2}, {5, 2}, {13, 4}}) {
    const std::vector<TokenBatch> sequences = sequences_of(n);
    std::vector<Values> nodes;
    for (int64_t first = 0; first < n; first += width)
      nodes.push_back(training.values(training.step().gradients_of_node(sequences, first, std::min(width, n - first))));
    const StepResult result = training.step().gradients(sequences);
    EXPECT_TRUE(same_bytes(training.values(result.loss), tree_sum(nodes))) << n << " micro-batches in nodes of " << width;
  }
}

INSTANTIATE_TEST_SUITE_P(settings, GradientTreeTest,
                         testing::Values(Setting{"gpt2_f32_adamw", "gpt2", DType::f32},  // tied embeddings
                                         Setting{"gpt2_bf16_muon", "gpt2", DType::bf16, true},
                                         Setting{"tied_llama_f32_muon_recomputed", "llama_tied_one_key_head", DType::f32, true, false,
                                                 true},
                                         Setting{"tied_llama_bf16_adamw", "llama_tied_one_key_head", DType::bf16},
                                         Setting{"qwen3_f32_lora", "qwen3", DType::f32, false, true},
                                         Setting{"gpt2_bf16_lora_muon", "gpt2", DType::bf16, true, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GradientTreeNodes, are_aligned_ranges_cut_at_the_end) {
  EXPECT_TRUE(GradientTree::is_node(0, 7, 7));
  EXPECT_TRUE(GradientTree::is_node(4, 3, 7));
  EXPECT_TRUE(GradientTree::is_node(4, 2, 7));
  EXPECT_TRUE(GradientTree::is_node(6, 1, 7));
  EXPECT_FALSE(GradientTree::is_node(2, 4, 7));  // not aligned
  EXPECT_FALSE(GradientTree::is_node(0, 3, 7));  // half of a node of four
  EXPECT_FALSE(GradientTree::is_node(4, 4, 7));  // beyond the end
  EXPECT_FALSE(GradientTree::is_node(-2, 2, 7));
  EXPECT_FALSE(GradientTree::is_node(0, 0, 7));
  Training training({"", "qwen3", DType::f32});
  EXPECT_THROW(training.step().gradients_of_node(sequences_of(7), 0, 3), Error);
}

TEST(GradientTreeMemory, has_a_partial_sum_for_each_level) {
  const auto device = open_device(test_device());
  const auto taken = [&] { return device->pool().stats().of(MemoryUse::gradients).in_use; };
  const auto values = [&](float value) { return Tensor::from_host(*device, {1024}, std::vector<float>(1024, value)); };
  const Tensor value = values(1);
  GradientTree tree({value});
  for (const auto& [n, sums] : {std::pair<int64_t, int64_t>{1, 0}, {2, 1}, {3, 1}, {4, 2}, {7, 2}, {8, 3}, {16, 4}, {17, 4}}) {
    tree.reserve(n);
    EXPECT_EQ(taken(), sums * 4096) << n << " micro-batches";
    for (int64_t i = 0; i < n; ++i) {
      value.write(std::vector<float>(1024, float(i)));
      tree.add(i, n, true);
      if (i + 1 < n) {
        EXPECT_EQ(value.to_host<float>(), std::vector<float>(1024, 0));
      }
    }
    EXPECT_EQ(taken(), sums * 4096) << n << " micro-batches";
    EXPECT_EQ(value.to_host<float>(), std::vector<float>(1024, float(n * (n - 1) / 2)));
  }
}

}  // namespace
}  // namespace weft
