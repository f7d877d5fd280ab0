// Whole runs of several ranks, which are threads: one of them is asked to stop, wherever it is, and all end alike.
#include "weft/train/trainer.h"

#include "tests/unit/thread_ranks.h"
#include "tests/unit/trainer_run.h"
#include "weft/backends/counting/counting_device.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

class TrainerRanks : public TrainerTest {
 protected:
  static constexpr int kRanks = 2;

  TrainConfig shared_config(const std::string& out, const char* shard) const {
    TrainConfig c = config(out);
    c.device = "cpu", c.threads = 1;  // messages of threads are copied in host memory
    c.shard = shard;
    return c;
  }
  struct End {
    std::string text;     // "finished", "stopped after step 3", "stopped before", or the error
    int64_t moments = 0;  // of the rank that listens
  };
  // Trains; rank `who` has the listener.
  std::vector<End> train_shared(const TrainConfig& c, int who, StopWhen& listener) {
    std::vector<End> ends(kRanks);
    const bool resume = fs::exists(c.out + "/config.toml");
    ThreadRanks(kRanks, 3).run([&](Communicator& ranks) {
      StopWhen none([](const Work&) { return false; });
      StopWhen& own = ranks.rank() == who ? listener : none;
      const Listening listening(own);
      End& end = ends[size_t(ranks.rank())];
      try {
        const TrainOutcome outcome = Trainer(c, {.resume = resume, .out = quiet, .stop = &own.stop, .ranks = &ranks}).run();
        end.text = outcome.finished ? "finished" : join("stopped after step ", outcome.step);
      } catch (const Stopped&) {
        end.text = "stopped before";
      } catch (const AgreedError& error) {
        end.text = error.what();
      }
      end.moments = own.moments;
    });
    return ends;
  }
};

TEST_F(TrainerRanks, a_stop_of_one_rank_is_a_stop_of_all_at_any_moment) {
  for (const char* shard : {"optimizer", "gradients"})
    for (int who = 0; who < kRanks; ++who) {
      const std::string name = join(shard, who);
      TrainConfig c = shared_config(name + "_whole", shard);
      StopWhen never([](const Work&) { return false; });
      const int64_t all = train_shared(c, who, never)[size_t(who)].moments;
      c.out = (folder / (name + "_parts")).string();
      int stops = 0;
      for (int64_t moment = all / 12;; moment += all / 9) {
        StopWhen listener([](const Work&) { return false; });
        listener.moment = moment;
        const std::vector<End> ends = train_shared(c, who, listener);
        for (const End& end : ends) EXPECT_EQ(end.text, ends[0].text) << name << " at " << moment;
        if (ends[0].text == "finished") break;
        ++stops;
      }
      EXPECT_GE(stops, 2) << name;
      EXPECT_EQ(weights(name + "_whole"), weights(name + "_parts")) << name;
    }
}

// The ranks look together for the tensor that is not finite: one that left them would keep the others waiting.
TEST_F(TrainerRanks, a_stop_while_a_bad_tensor_is_looked_for) {
  for (int who = 0; who < kRanks; ++who) {
    TrainConfig c = shared_config(join("bad", who), "optimizer");
    c.optimizer = "sgd", c.learning_rate = 1e30, c.clip = 0, c.warmup = 0;
    int64_t passes = 0;  // of the run, not of its plan
    StopWhen third([&](const Work& work) {
      passes += work.what == "micro-batch" && work.done == 0 && fs::exists(c.out);
      return passes == 3;  // two steps, then the second again
    });
    const std::vector<End> ends = train_shared(c, who, third);
    EXPECT_EQ(passes, 3);
    for (const End& end : ends) EXPECT_EQ(end.text, ends[0].text);
  }
}

// Muon's matrices are not cut, so that ranks own different numbers of elements.
TEST_F(TrainerRanks, the_plan_is_of_the_rank_that_needs_the_most) {
  TrainConfig c = shared_config("plan", "optimizer");
  c.optimizer = "muon";
  c.batch = 16, c.pass_tokens = 24;
  const TrainingProblem problem = make_problem(resolved(c), {});
  const auto device = counting::open_device(1);
  const auto model = make_planned_model(c, problem.model, *device);
  int64_t most = 0, first = 0;
  for (int rank = 0; rank < 16; ++rank) {
    int64_t bytes = 0;
    const auto optimizer = make_optimizer(c, *model, *planned_ranks(16, rank), Sharding::optimizer);
    for (const NamedTensor& t : optimizer->state()) bytes += t.tensor.numel() * size_of(t.tensor.dtype());
    if (rank == 0) first = bytes;
    most = std::max(most, bytes);
  }
  EXPECT_GT(most, first);
  EXPECT_GE(make_plan(resolved(c), problem, 16).memory.of(MemoryUse::optimizer).high_water, most);
}

}  // namespace
}  // namespace weft
