#include "weft/train/sharding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/unit/thread_ranks.h"
#include "weft/backends/counting/counting_device.h"
#include "weft/ops/gradient_squares/gradient_squares.h"
#include "weft/train/gradient_tree.h"

namespace weft {
namespace {

std::vector<Share> shares(int64_t n, int ranks, Sharding sharding) {
  std::vector<Share> all(static_cast<size_t>(ranks));
  ThreadRanks(ranks, 0).run([&](Communicator& self) { all[size_t(self.rank())] = share_of(n, self, sharding); });
  return all;
}

std::string error_of(const StepSize& step, int ranks, Sharding sharding = Sharding::optimizer) {
  try {
    share_of(step, *planned_ranks(ranks), sharding);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(share_of, gives_every_rank_a_node_of_the_tree) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int64_t n = 1; n <= 40; ++n) {
      if (!can_share(n, ranks, Sharding::optimizer)) {
        EXPECT_THROW(share_of(n, *planned_ranks(ranks), Sharding::optimizer), Error);
        continue;
      }
      int64_t next = 0;
      for (const Share& share : shares(n, ranks, Sharding::optimizer)) {
        const auto& own = share.micro_batches;
        ASSERT_FALSE(own.empty()) << n << " by " << ranks;
        EXPECT_TRUE(ranks == 1 || GradientTree::is_node(own.front(), int64_t(own.size()), n)) << n << " by " << ranks;
        for (int64_t index : own) EXPECT_EQ(index, next++);
      }
      EXPECT_EQ(next, n);
    }
}

TEST(share_of, can_share) {
  const auto numbers = [](int ranks, Sharding sharding) {
    std::vector<int64_t> all;
    for (int64_t n = 1; n <= 16; ++n)
      if (can_share(n, ranks, sharding)) all.push_back(n);
    return all;
  };
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(numbers(2, Sharding::optimizer), (Numbers{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(numbers(3, Sharding::optimizer), (Numbers{3, 5, 6, 9, 10, 11, 12}));
  EXPECT_EQ(numbers(4, Sharding::optimizer), (Numbers{4, 7, 8, 13, 14, 15, 16}));
  EXPECT_EQ(numbers(5, Sharding::none), (Numbers{5, 9, 10}));
  EXPECT_EQ(numbers(6, Sharding::optimizer), (Numbers{6, 11, 12}));
  EXPECT_EQ(numbers(7, Sharding::optimizer), (Numbers{7, 13, 14}));
  EXPECT_EQ(numbers(3, Sharding::gradients), (Numbers{3}));
  EXPECT_EQ(numbers(4, Sharding::gradients), (Numbers{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
}

TEST(share_of, runs_and_rounds) {
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(shares(3, 2, Sharding::optimizer)[0].micro_batches, (Numbers{0, 1}));
  EXPECT_EQ(shares(3, 2, Sharding::optimizer)[1].micro_batches, (Numbers{2}));
  EXPECT_EQ(shares(11, 3, Sharding::none)[2].micro_batches, (Numbers{8, 9, 10}));
  EXPECT_EQ(shares(6, 4, Sharding::gradients)[1].micro_batches, (Numbers{1, 5}));
  EXPECT_EQ(shares(6, 4, Sharding::gradients)[3].micro_batches, (Numbers{3}));
  EXPECT_EQ(shares(5, 1, Sharding::gradients)[0].micro_batches, (Numbers{0, 1, 2, 3, 4}));
}

TEST(share_of, names_settings_that_would_do) {
  const StepSize eight{.batch = 8, .accumulate = 1, .sequence_tokens = 256, .pass_tokens = 256};
  const std::string text = error_of(eight, 3);
  EXPECT_NE(text.find("8 micro-batches cannot be shared by 3 ranks"), std::string::npos) << text;
  EXPECT_NE(text.find("--batch 6"), std::string::npos) << text;
  EXPECT_EQ(text.find("--pass-tokens"), std::string::npos) << text;  // 8, 4, 2 and 1 micro-batches: none can be shared by 3
  // Few and long micro-batches: shorter ones would do.
  const StepSize two{.batch = 8, .accumulate = 1, .sequence_tokens = 256, .pass_tokens = 1024};
  EXPECT_NE(error_of(two, 4).find("--batch 16 or --pass-tokens 512"), std::string::npos) << error_of(two, 4);
  const StepSize one{.batch = 1, .accumulate = 4, .sequence_tokens = 64, .pass_tokens = 2048};
  EXPECT_NE(error_of(one, 2).find("1 micro-batch cannot"), std::string::npos) << error_of(one, 2);
  EXPECT_NE(error_of(one, 2).find("--batch 9 or --pass-tokens 128"), std::string::npos) << error_of(one, 2);
  EXPECT_NE(error_of(eight, 3, Sharding::gradients).find("--batch 3"), std::string::npos) << error_of(eight, 3, Sharding::gradients);
  EXPECT_EQ(error_of(eight, 4), "");
  // Whatever is named works.
  for (int ranks : {2, 3, 4, 5, 6, 7, 8})
    for (Sharding sharding : {Sharding::optimizer, Sharding::gradients})
      for (int64_t batch = 1; batch <= 24; ++batch) {
        StepSize step{.batch = batch, .accumulate = 2, .sequence_tokens = 32, .pass_tokens = 128};
        const std::string error = error_of(step, ranks, sharding);
        if (error.empty()) continue;
        const auto value = [&](const std::string& setting) {
          const size_t at = error.find(setting);
          return at == std::string::npos ? int64_t(0) : std::stoll(error.substr(at + setting.size()));
        };
        const int64_t other = value("--batch "), tokens = value("--pass-tokens ");
        EXPECT_GT(other, 0) << error;
        if (tokens) {
          StepSize shorter = step;
          shorter.pass_tokens = tokens;
          EXPECT_EQ(error_of(shorter, ranks, sharding), "") << error;
        }
        step.batch = other;
        EXPECT_EQ(error_of(step, ranks, sharding), "") << error;
      }
}

TEST(sharding, has_names) {
  for (Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::gradients})
    EXPECT_EQ(sharding_from_name(name(sharding)), sharding);
  EXPECT_THROW(sharding_from_name("weights"), Error);
}

std::vector<Parameter> parameters_of(const std::vector<Shape>& shapes) {
  const auto device = counting::open_device(1);
  std::vector<Parameter> parameters;
  for (const Shape& shape : shapes) parameters.push_back({"", Tensor::empty(*device, shape)});
  return parameters;
}

TEST(ParameterShards, cover_every_element_once) {
  const std::vector<Shape> shapes = {{50257, 64}, {64},        {1024, 64}, {0},  {3, 65536}, {65537}, {7},   {64, 4096},
                                     {1},         {262144, 4}, {16},       {16}, {300, 300}, {5},     {2, 2}};
  const std::vector<Parameter> parameters = parameters_of(shapes);
  std::vector<bool> whole(shapes.size());
  whole[2] = whole[7] = true;
  for (int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 64}) {
    const ParameterShards shards(parameters, whole, ranks);
    std::vector<int64_t> owned(static_cast<size_t>(ranks));
    for (size_t i = 0; i < shapes.size(); ++i) {
      std::vector<Range> ranges;
      for (int rank = 0; rank < ranks; ++rank)
        if (shards.range(i, rank).count) ranges.push_back(shards.range(i, rank)), owned[size_t(rank)] += ranges.back().count;
      std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) { return a.first < b.first; });
      int64_t next = 0;
      for (Range range : ranges) {
        EXPECT_EQ(range.first, next);
        EXPECT_EQ(range.first % ParameterShards::kCut, 0);
        next = range.end();
      }
      EXPECT_EQ(next, shapes[i].numel());
      EXPECT_TRUE(!whole[i] || ranges.size() == 1);
    }
    size_t parameter = 0;
    for (const ParameterShards::Bucket& bucket : shards.buckets()) {
      EXPECT_EQ(bucket.first, parameter);
      EXPECT_GT(bucket.end, bucket.first);
      parameter = bucket.end;
    }
    EXPECT_EQ(parameter, shapes.size());
    for (size_t b = 0; b + 1 < shards.buckets().size(); ++b) {
      int64_t elements = 0;
      for (size_t i = shards.buckets()[b].first; i < shards.buckets()[b].end; ++i) elements += shapes[i].numel();
      EXPECT_GE(elements, ParameterShards::kCut * ranks);
    }
    if (ranks > 8) continue;
    const int64_t even = std::accumulate(owned.begin(), owned.end(), int64_t(0)) / ranks;
    for (int64_t each : owned) EXPECT_NEAR(double(each), double(even), 0.2 * double(even) + 131072) << ranks << " ranks";
  }
}

// Pieces are numbered as in one process; each rank lists the numbers of its own.
TEST(ParameterShards, put_pieces_of_the_norm_in_order) {
  const std::vector<Shape> shapes = {{40, 65536}, {7}, {65537}, {0}, {20, 65536}, {3, 40000}, {1048576}, {100000}};
  for (int ranks : {1, 2, 3, 4, 7}) {
    const ParameterShards shards(parameters_of(shapes), {}, ranks);
    std::vector<std::vector<float>> lists(static_cast<size_t>(ranks));
    std::vector<float> all;
    for (size_t i = 0; i < shapes.size(); ++i)
      for (int64_t at = 0; at < shapes[i].numel(); at += kNormPiece) {
        for (int rank = 0; rank < ranks; ++rank) {
          const Range range = shards.range(i, rank);
          if (range.first <= at && at < range.end()) lists[size_t(rank)].push_back(float(all.size()));
        }
        all.push_back(float(all.size()));
      }
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(shards.norm_pieces(rank), lists[size_t(rank)].size());
    EXPECT_EQ(shards.in_order(lists), all) << ranks << " ranks";
  }
}

TEST(ParameterShards, of_one_rank_are_the_parameters) {
  const ParameterShards shards(parameters_of({{3, 4}, {100000}}), {}, 1);
  EXPECT_EQ(shards.of_rank(0), (std::vector<Range>{{0, 12}, {0, 100000}}));
}

}  // namespace
}  // namespace weft
