// The memory plan equals the process's peak: runs that train, evaluate, sample, save and export, measured by the system: within 3 % of a
// plan of 1 GiB, which is more than the process needs beside its tensors.
//
// On the CPU this is the peak resident set minus what was resident before. Pages of mapped files (the program, weights while they are
// loaded) do not count: they are page cache, which the system drops when it needs the memory. On a GPU it is the driver's figure for the
// device, so nothing else may use it meanwhile:
//   WEFT_TEST_DEVICE=cuda resident_memory_test
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/sanitizer.h"
#include "tests/unit/test_device.h"
#include "weft/base/check.h"
#include "weft/train/trainer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kGiB = int64_t(1) << 30;

// A line of /proc/self/status in bytes; -1 if there is none.
int64_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  return -1;
}

// Resets the peak of the resident set.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5 << std::flush;
  return file.good();
}

// Peak memory in use on a GPU, sampled by another thread: the pool holds its memory for the rest of a phase.
class DeviceWatch {
 public:
  explicit DeviceWatch(Device& device) : device_(device), thread_([this] { watch(); }) {}
  int64_t least_free() {
    done_ = true;
    thread_.join();
    return least_;
  }

 private:
  void watch() {
    while (!done_) {
      least_ = std::min(least_, device_.memory().free);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  Device& device_;
  int64_t least_ = INT64_MAX;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

class ResidentMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "the sanitizer's own memory counts in the resident set";
    if (!on_cpu() && !test_device().starts_with("cuda")) GTEST_SKIP() << "nobody says what a process takes of " << test_device();
    if (on_cpu() && (status("VmHWM") < 0 || !reset_peak())) GTEST_SKIP() << "the system does not report the peak of the resident set";
    fs::create_directories(folder);
    std::ofstream text(folder / "text.txt");
    for (int i = 0; i < 2000; ++i) text << "line " << i * i << " of a text\n";
    text.close();
    TrainConfig c = config("warm");  // warm-up: threads, kernels and the device's context
    c.model = "llama-tiny", c.layers = 2, c.width = 64, c.heads = 4, c.ffn = 96;
    Trainer(c, {.out = quiet}).run();
  }
  ~ResidentMemory() override {
    std::fclose(quiet);
    fs::remove_all(folder);
  }
  TrainConfig config(const std::string& name) {
    TrainConfig c;
    c.device = test_device();
    c.data = (folder / "text.txt").string();
    c.cache = (folder / "cache").string();
    c.out = (folder / name).string();
    c.vocabulary = "bytes";
    c.sequence = 128, c.batch = 3, c.pass_tokens = 384;
    c.steps = 2, c.warmup = 1, c.evaluate_every = 1, c.evaluate_units = 1, c.sample_tokens = 16, c.keep = 1;
    c.learning_rate = 1e-4;
    return c;
  }
  int64_t taken_by(const std::function<void()>& run) {
    if (on_cpu()) {
      run();
      return status("VmHWM") - status("RssFile");
    }
    const auto device = open_device(test_device());
    const int64_t before = device->memory().free;
    DeviceWatch watch(*device);
    run();
    return before - watch.least_free();
  }
  int64_t expect_planned(const TrainConfig& c) {
    Plan plan;
    PoolStats pool;
    const int64_t before = on_cpu() ? status("RssAnon") : 0;
    const int64_t taken = taken_by([&] {
                            Trainer trainer(c, {.out = quiet});
                            reset_peak();  // weight files are no longer mapped
                            trainer.run();
                            plan = trainer.plan();
                            pool = trainer.model().device().pool().stats();
                          }) -
                          before;
    std::printf("planned %lld MiB, %lld of it in use at once; the pool held %lld, the process %lld\n", (long long)(plan.peak() >> 20),
                (long long)(plan.memory.high_water >> 20), (long long)(pool.held_high_water >> 20), (long long)(taken >> 20));
    EXPECT_LE(std::abs(double(taken - plan.peak())), 0.03 * double(std::max(plan.peak(), kGiB)))
        << "planned " << plan.peak() << ", took " << taken;
    return plan.peak();
  }
  const fs::path folder = fs::temp_directory_path() / ("weft_resident_" + std::to_string(::getpid()));
  std::FILE* quiet = std::tmpfile();
};

TEST_F(ResidentMemory, equals_the_plan_with_and_without_adapters) {
  TrainConfig c = config("whole");
  c.model = "llama-tiny", c.layers = 2, c.width = 1536, c.heads = 12, c.ffn = 4608;
  EXPECT_GE(expect_planned(c), kGiB);
  TrainConfig a = config("adapters");  // on the exported model; the export merges them
  a.model = c.out + "/model", a.lora_rank = 8, a.lora_targets = "all-linear", a.vocabulary = TrainConfig().vocabulary;
  expect_planned(a);
}

}  // namespace
}  // namespace weft
