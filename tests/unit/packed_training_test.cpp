// Training on packed documents: every token has the bits of its document alone, and a run's result does not depend on how it was computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/unit/model_cases.h"
#include "tests/unit/test_device.h"
#include "tests/unit/thread_ranks.h"
#include "tests/unit/trainer_run.h"
#include "weft/data/packing.h"
#include "weft/train/capture.h"
#include "weft/train/plan.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Documents of 1 to 60 tokens; every fifth target does not count, as in a conversation.
class RandomDocuments : public TokenDocuments {
 public:
  int64_t size() const override { return 14; }
  int64_t length(int64_t document) const override { return document == 3 ? 60 : 1 + document * 7919 % 23; }
  void read(int64_t document, int64_t begin, std::span<int32_t> ids, std::span<int32_t> targets) const override {
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t at = begin + int64_t(i);
      ids[i] = int32_t((document * 31 + at * at * 17 + at) % 61);
      targets[i] = at % 5 == 4 ? kIgnored : int32_t((document * 13 + at * 29) % 61);
    }
  }
};

struct Positions {
  std::vector<float> losses;
  std::vector<uint32_t> digests;  // of the logits
  std::vector<std::vector<float>> gradients;
};

// `count` divides the sum of the losses.
Positions run(const Model& model, const TokenBatch& batch, float count, bool recompute) {
  Device& device = model.device();
  for (const Parameter& p : model.trainable_parameters()) zero_grad(p.tensor);
  LossOptions options{.pad_id = kIgnored, .count = Tensor::from_host(device, {1}, std::vector<float>{count}), .recompute = recompute};
  options.losses = Tensor::empty(device, {batch.rows, batch.tokens});
  options.digests = Tensor::empty(device, {batch.rows, batch.tokens}, DType::u32);
  options.documents = batch.upload_documents(device);
  model.loss(batch.upload_ids(device), batch.upload_targets(device), options).backward();
  Positions found{options.losses.to_host<float>(), options.digests.to_host<uint32_t>(), {}};
  for (const Parameter& p : model.trainable_parameters()) found.gradients.push_back(p.tensor.grad().to_host<float>());
  return found;
}

// Documents [begin, end) of a batch as a sequence of its own.
TokenBatch alone(const TokenBatch& batch, int64_t begin, int64_t end) {
  return {
      1, end - begin, {batch.ids.begin() + begin, batch.ids.begin() + end}, {batch.targets.begin() + begin, batch.targets.begin() + end}};
}

template <class T>
bool same_bytes(const std::vector<T>& all, int64_t begin, const std::vector<T>& part) {
  return std::memcmp(all.data() + begin, part.data(), part.size() * sizeof(T)) == 0;
}

void compare_with_alone(const ModelCase& each, DType dtype, bool recompute) {
  SCOPED_TRACE(testing::Message() << each.name << " " << name(dtype) << (recompute ? " recomputed" : ""));
  const auto device = open_device(test_device());
  const auto model = make_model(each.config, *device, 5, {.dtype = dtype, .trainable = true});
  const RandomDocuments documents;
  const PackedSequences rows(documents, all_pieces(documents), each.config.max_positions, Packing::documents);
  ASSERT_GE(rows.size(), 3);
  std::vector<TokenBatch> sequences;
  for (int64_t row = 0; row < rows.size(); ++row) sequences.push_back(rows.sequence(row));
  const TokenBatch batch = stacked(sequences);
  const auto count = float(batch.counted());
  const Positions packed = run(*model, batch, count, recompute);
  std::vector<std::vector<double>> sums(packed.gradients.size()), magnitudes(packed.gradients.size());
  for (size_t d = 0; d < batch.documents.size(); ++d) {
    const int64_t begin = batch.documents[d], end = d + 1 < batch.documents.size() ? batch.documents[d + 1] : int64_t(batch.ids.size());
    const TokenBatch one = alone(batch, begin, end);
    const Positions found = run(*model, one, count, false);
    EXPECT_TRUE(same_bytes(packed.losses, begin, found.losses)) << "document " << d;
    EXPECT_TRUE(same_bytes(packed.digests, begin, found.digests)) << "document " << d;
    for (size_t p = 0; p < sums.size(); ++p) {
      sums[p].resize(found.gradients[p].size()), magnitudes[p].resize(found.gradients[p].size());
      for (size_t i = 0; i < sums[p].size(); ++i)
        sums[p][i] += found.gradients[p][i], magnitudes[p][i] += std::abs(double(found.gradients[p][i]));
    }
  }
  // The terms of a sum over tokens have the same bits; their order differs. f32 sums of as many terms, relative to the largest element.
  for (size_t p = 0; p < sums.size(); ++p) {
    const double scale = *std::max_element(magnitudes[p].begin(), magnitudes[p].end());
    for (size_t i = 0; i < sums[p].size(); ++i)
      ASSERT_LE(std::abs(sums[p][i] - packed.gradients[p][i]), double(batch.ids.size()) * 0x1p-24 * scale)
          << model->trainable_parameters()[p].name << " " << i;
  }
}

TEST(PackedDocuments, every_token_has_the_bits_of_its_document_alone) {
  for (const ModelCase& each : model_cases()) compare_with_alone(each, DType::f32, false);
  compare_with_alone(model_cases().front(), DType::f32, true);
  for (const ModelCase& each : {model_cases().front(), model_cases().back()}) compare_with_alone(each, DType::bf16, false);
}

TEST(PackedDocuments, evaluation_of_rows_is_the_sum_of_documents) {
  const auto device = open_device(test_device());
  const auto model = make_model(model_cases().front().config, *device, 5);
  const RandomDocuments documents;
  const PackedSequences one(documents, all_pieces(documents), 48, Packing::none),
      packed(documents, all_pieces(documents), 48, Packing::documents);
  const auto losses = [&](const PackedSequences& rows) {
    std::vector<float> found;
    for (int64_t row = 0; row < rows.size(); ++row) {
      const TokenBatch batch = rows.sequence(row);
      const NoGrad no_grad;
      LossOptions options{.pad_id = kIgnored};
      options.losses = Tensor::empty(*device, {1, 48});
      options.documents = batch.upload_documents(*device);
      model->loss(batch.upload_ids(*device), batch.upload_targets(*device), options);
      const std::vector<float> all = options.losses.to_host<float>();
      for (size_t i = 0; i < all.size(); ++i)
        if (batch.targets[i] != kIgnored) found.push_back(all[i]);
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  EXPECT_LT(packed.size(), one.size());
  EXPECT_EQ(losses(one), losses(packed));  // padding after a document changes none of its bits
}

class PackedTraining : public TrainerTest {
 protected:
  PackedTraining() {
    std::ofstream text(folder / "documents.jsonl");
    for (int i = 0; i < 200; ++i) {
      text << "{\"text\": \"";
      for (int word = 0; word < 1 + i * 37 % 11; ++word) text << "word " << i * word << " ";
      text << "\"}\n";
    }
  }
  TrainConfig packed(const std::string& out) const {
    TrainConfig c = config(out);
    c.device = "cpu", c.data = (folder / "documents.jsonl").string(), c.packing = "documents", c.sequence = 48, c.pass_tokens = 96;
    return c;
  }
};

TEST_F(PackedTraining, nothing_but_the_sequences_decides_the_bits) {
  train(packed("plain"));
  TrainConfig c = packed("threads");
  c.threads = 1, c.batch = 2, c.accumulate = 2, c.recompute = true;
  train(c);
  EXPECT_EQ(weights("plain"), weights("threads"));
  c = packed("parts");
  train_steps(c, 2);
  train_steps(c, 3, true);
  train(c, true);
  EXPECT_EQ(weights("plain"), weights("parts"));
  c = packed("ranks");
  c.threads = 1;
  ThreadRanks(2, 3).run([&](Communicator& ranks) { Trainer(c, {.out = quiet, .ranks = &ranks}).run(); });
  EXPECT_EQ(weights("plain"), weights("ranks"));
  c = packed("stream");
  c.packing = "concatenate";
  train(c);
  EXPECT_NE(weights("plain"), weights("stream"));
}

// A step's work has 4 D FLOPs forward and 10 D backward for each head and each pair of a query and a key of one document.
TEST_F(PackedTraining, work_is_that_of_attention_inside_documents) {
  TrainConfig c = resolved(packed("work"));
  c.dropout = 0;
  const TrainingProblem problem = make_problem(c, [](const std::string&) {});
  const Plan plan = make_plan(c, problem);
  const double of_pair = 14.0 * double(problem.model.layers * problem.model.heads * problem.model.head_dim);
  const auto pairs = [](std::vector<double> lengths) {
    double sum = 0;
    for (double length : lengths) sum += length * (length + 1) / 2;
    return sum;
  };
  TokenBatch row = problem.data->training_sequence(0);
  row.documents = {0, 8, 40};
  const double sequences = double(c.batch * c.accumulate);
  EXPECT_DOUBLE_EQ(plan.flops_of(std::vector(size_t(sequences), row), 1), plan.other_flops + sequences * of_pair * pairs({8, 32, 8}));
  row.documents = {};
  EXPECT_DOUBLE_EQ(plan.flops_of(std::vector{row}, 0.5), 0.5 * (plan.other_flops + sequences * of_pair * pairs({48})));
  double all = 0;
  for (int64_t i = 0; i < problem.data->sequences_per_epoch(); ++i) all += problem.data->training_sequence(i).attended_pairs();
  const double mean = all / double(problem.data->sequences_per_epoch());
  EXPECT_LT(mean, pairs({48}));
  EXPECT_NEAR(plan.step.flops, plan.other_flops + sequences * of_pair * mean, 1e-9 * plan.step.flops);
  c.packing = "concatenate";
  const Plan stream = make_plan(c, make_problem(c, [](const std::string&) {}));
  EXPECT_NEAR(stream.step.flops, plan.other_flops + sequences * of_pair * pairs({48}), 1e-3 * stream.step.flops);  // rope reads positions
}

TEST_F(PackedTraining, padding_is_recorded) {
  for (const char* packing : {"none", "concatenate", "documents"}) {
    TrainConfig c = packed(packing);
    c.packing = packing;
    train(c);
    const History history = History::read(c.out + "/metrics.jsonl");
    ASSERT_TRUE(history.data());
    EXPECT_EQ(history.data()->packing, packing);
    EXPECT_GT(history.data()->training_sequences, 0);
    const double padding = history.data()->padding;
    EXPECT_TRUE(c.packing == "none"        ? padding > 0.1
                : c.packing == "documents" ? padding < 0.03
                                           : padding == 0)
        << packing << " " << padding;
    EXPECT_NE(contents(folder / packing / "report.html").find("% padding"), std::string::npos);
    EXPECT_EQ(records(c.out, "packing").size(), 1u);
  }
}

TEST_F(PackedTraining, adapters_are_trained_on_packed_documents) {
  train(packed("base"));
  TrainConfig c = packed("adapter");
  c.model = (folder / "base/model").string();
  c.width = c.layers = c.heads = c.ffn = 0, c.lora_rank = 2, c.lora_dropout = 0.1;
  EXPECT_TRUE(train(c).finished);
}

TEST_F(PackedTraining, a_captured_step_keeps_its_documents) {
  TrainConfig c = packed("bad");
  c.optimizer = "sgd", c.learning_rate = 1e30, c.clip = 0, c.warmup = 0, c.dropout = 0;
  EXPECT_THROW(train(c), Error);
  std::string capture;
  for (const auto& entry : fs::directory_iterator(c.out))
    if (entry.path().filename().string().starts_with("capture-")) capture = entry.path().string();
  ASSERT_FALSE(capture.empty());
  const Checkpoint file(capture);
  ASSERT_TRUE(file.file().contains("unit0.documents"));
  const Replay replay = replay_capture(capture, "cpu", 1);
  EXPECT_FALSE(replay.result.finite());
  EXPECT_EQ(std::isnan(replay.result.loss), std::isnan(replay.captured.loss));
  EXPECT_TRUE(replay.bad.has_value());
}

// The default is written down, so that a run keeps it; a run from before there was a choice concatenated.
TEST_F(PackedTraining, a_run_keeps_its_packing) {
  TrainConfig c = packed("default");
  c.device = test_device(), c.packing = "";
  train(c);
  const std::string text = contents(folder / "default/config.toml");
  EXPECT_NE(text.find("packing = \"documents\""), std::string::npos);
  std::string old;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    if (!text.substr(at, end - at).starts_with("packing")) old += text.substr(at, end - at);
    at = end;
  }
  EXPECT_EQ(parse_run_config(old, "old").packing, "concatenate");
  EXPECT_EQ(parse_run_config("data = \"sums\"\n", "old").packing, "");
  c.packing = "concatenate", c.steps = 9;
  EXPECT_THROW(train(c, true), Error);
}

}  // namespace
}  // namespace weft
