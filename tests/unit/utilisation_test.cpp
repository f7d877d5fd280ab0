// Utilisation of the device's peak: never more than 1, however wrong the measured peak is.
#include "weft/train/utilisation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/unit/training_run.h"

namespace weft {
namespace {

// Returns the measurements in order, and then repeats the last one.
class Peaks {
 public:
  explicit Peaks(std::vector<double> rates) : rates_(std::move(rates)) {}
  PeakFlops next() { return {rates_[std::min(taken_++, rates_.size() - 1)], "test"}; }
  size_t taken() const { return taken_; }

 private:
  std::vector<double> rates_;
  size_t taken_ = 0;
};

TEST(Utilisation, unknown_without_a_peak) {
  Utilisation none, unmeasured([] { return PeakFlops{}; });
  EXPECT_EQ(none.of_step(100, 1), 0);
  EXPECT_EQ(unmeasured.of_step(100, 1), 0);
}

TEST(Utilisation, keeps_a_peak_that_no_step_exceeds) {
  Peaks peaks({200});
  Utilisation utilisation([&] { return peaks.next(); });
  for (double flops : {50.0, 100.0, 200.0}) EXPECT_EQ(utilisation.of_step(flops, 1), flops / 200);
  EXPECT_EQ(peaks.taken(), 1u);
}

TEST(Utilisation, remeasures_when_a_step_exceeds_the_peak) {
  Peaks peaks({10, 400});
  Utilisation utilisation([&] { return peaks.next(); });
  EXPECT_EQ(utilisation.of_step(5, 1), 0.5);
  EXPECT_EQ(utilisation.of_step(100, 1), 0.25);
  EXPECT_EQ(utilisation.peak().rate, 400);
  EXPECT_EQ(utilisation.of_step(200, 1), 0.5);
  EXPECT_EQ(peaks.taken(), 2u);
}

TEST(Utilisation, unknown_once_the_second_peak_is_exceeded) {
  Peaks peaks({10, 20, 1000});
  Utilisation utilisation([&] { return peaks.next(); });
  EXPECT_EQ(utilisation.of_step(100, 1), 0);
  EXPECT_EQ(utilisation.of_step(5, 1), 0);
  EXPECT_EQ(utilisation.peak().rate, 0);
  EXPECT_EQ(peaks.taken(), 2u);
}

class UtilisationOfRuns : public TrainingRun {
 protected:
  // The utilisations in the progress lines of a run whose peak is measured as `peaks`.
  std::vector<int> shares(const std::string& name, std::vector<double> rates) {
    TrainConfig c = config_in(name);
    c.width = 32, c.layers = 1, c.heads = 2, c.ffn = 48, c.sequence = 24, c.batch = 2, c.steps = 6, c.log_every = 1, c.sample_tokens = 1;
    Peaks peaks(std::move(rates));
    std::FILE* const out = std::tmpfile();
    Trainer(c, {.out = out, .peak_flops = [&](Device&) { return peaks.next(); }}).run();
    std::rewind(out);
    std::vector<int> found;
    for (char line[512]; std::fgets(line, sizeof line, out);) {
      const std::string text = line;
      const size_t end = text.find(" % of peak");
      if (end != std::string::npos) found.push_back(std::atoi(text.c_str() + text.rfind(' ', end - 1)));
    }
    std::fclose(out);
    return found;
  }
};

TEST_F(UtilisationOfRuns, shows_every_step_below_a_valid_peak) {
  const std::vector<int> sound = shares("sound", {1e18});
  EXPECT_EQ(sound.size(), 6u);
  for (int share : sound) EXPECT_EQ(share, 0);
}

TEST_F(UtilisationOfRuns, never_shows_more_than_the_peak) {
  EXPECT_TRUE(shares("disturbed", {1}).empty()) << "one FLOP/s, twice";
  const std::vector<int> mended = shares("mended", {1, 1e18});
  EXPECT_EQ(mended.size(), 6u);
  for (int share : mended) EXPECT_EQ(share, 0);
}

}  // namespace
}  // namespace weft
