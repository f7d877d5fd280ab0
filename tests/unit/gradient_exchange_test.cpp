// Gradients leave while backward() goes on, and are released when they have travelled.
#include "weft/train/gradient_exchange.h"

#include <gtest/gtest.h>

#include "tests/unit/thread_ranks.h"
#include "weft/train/optimizers.h"
#include "weft/weft.h"

namespace weft {
namespace {

// Counts the transfers that another communicator starts.
class CountStarts : public Communicator {
 public:
  explicit CountStarts(Communicator& ranks) : Communicator(ranks.rank(), ranks.size()), ranks_(ranks) {}
  std::string description() const override { return ranks_.description(); }
  std::string host(int rank) const override { return ranks_.host(rank); }
  [[noreturn]] void abort(int) override { fail(ErrorCode::unsupported, "ranks", "abort"); }
  int started = 0;

 protected:
  std::unique_ptr<Transfer> do_start(Stream& stream, std::span<const Outgoing> send, std::span<const Incoming> receive) override {
    ++started;
    return ranks_.start(stream, send, receive);
  }
  void do_exchange(std::span<const HostOutgoing> send, std::span<const HostIncoming> receive) override { ranks_.exchange(send, receive); }

 private:
  Communicator& ranks_;
};

constexpr int kLayers = 12;
constexpr int64_t kWidth = 8;

// y = x w_0 w_1 ... element by element; backward() reaches the last layer first. The layer in the middle is used twice, first and last.
struct Chain {
  std::shared_ptr<Device> device = open_device("cpu", {.threads = 1});
  std::vector<Parameter> parameters;
  bool reuse;

  explicit Chain(bool reuse) : reuse(reuse) {
    for (int i = 0; i < kLayers; ++i)
      parameters.emplace_back(std::to_string(i), full(*device, {kWidth}, 1.0f + 0.01f * float(i)).set_requires_grad());
  }
  void backward(int rank) const {
    Tensor y = full(*device, {kWidth}, float(rank + 1));
    if (reuse) y = y * parameters[kLayers / 2].tensor;
    for (const Parameter& p : parameters) y = y * p.tensor;
    sum_all(y).backward();
  }
  int held() const {
    int held = 0;
    for (const Parameter& p : parameters) held += p.tensor.grad().defined();
    return held;
  }
};

struct Pass {
  int started, held;  // at the end of backward()
};

// Two passes of each rank: rank 0's.
std::vector<Pass> passes(bool reuse, bool release) {
  std::vector<Pass> first;
  ThreadRanks(2, 1).run([&](Communicator& inner) {
    CountStarts ranks(inner);
    const Chain chain(reuse);
    const ParameterShards shards(chain.parameters, {}, 2, kWidth);  // a bucket for each
    AdamW optimizer(chain.parameters, {}, shards.of_rank(ranks.rank()));
    GradientExchange exchange(ranks, optimizer, shards, 1024);
    std::vector<Tensor> sums;
    for (size_t i = 0; i < chain.parameters.size(); ++i)
      sums.push_back(optimizer.owned(i).count ? zeros(*chain.device, {kWidth}) : Tensor());
    if (release) exchange.release_gradients(sums);
    for (int pass = 0; pass < 2; ++pass) {
      if (!release) optimizer.allocate_gradients();
      Pass seen{};
      const int before = ranks.started;
      exchange.sum(
          [&] {
            chain.backward(ranks.rank());
            seen = {ranks.started - before, chain.held()};
          },
          2, {});
      EXPECT_EQ(ranks.started - before, kLayers);
      if (ranks.first()) first.push_back(seen);
      // The gradient of layer i is x times the other layers: 1 + 2 = 3 of them.
      for (size_t i = 0; i < chain.parameters.size(); ++i) {
        if (!optimizer.owned(i).count) continue;
        double expected = 3;
        for (size_t j = 0; j < chain.parameters.size(); ++j) expected *= j == i ? 1 : 1 + 0.01 * double(j);
        if (reuse) expected *= (i == kLayers / 2 ? 2 : 1) * (1 + 0.01 * kLayers / 2);
        EXPECT_NEAR((release ? sums[i] : chain.parameters[i].tensor.grad()).to_host<float>()[3], expected, 1e-5 * expected) << i;
      }
    }
    EXPECT_EQ(chain.held(), release ? 0 : kLayers);
  });
  return first;
}

TEST(GradientExchange, overlaps_with_the_backward_pass) {
  const std::vector<Pass> seen = passes(false, false);
  EXPECT_EQ(seen[0].started, 0);  // the first pass counts additions
  EXPECT_EQ(seen[1].started, kLayers);
}

// The layer in the middle is final at the end only, and those before it leave after it.
TEST(GradientExchange, waits_for_the_last_addition) {
  const std::vector<Pass> seen = passes(true, false);
  EXPECT_EQ(seen[0].started, 0);
  EXPECT_EQ(seen[1].started, kLayers);  // the second use is visited before backward() ends
}

TEST(GradientExchange, releases_what_has_travelled) {
  const std::vector<Pass> seen = passes(false, true);
  EXPECT_EQ(seen[0].held, kLayers);
  EXPECT_LE(seen[1].held, 4);  // as many are under way
}

}  // namespace
}  // namespace weft
