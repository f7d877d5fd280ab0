// Progress of long work: listeners, the text shown, and where work can be stopped.
#include "weft/base/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/test_device.h"
#include "weft/autograd/backward.h"
#include "weft/backends/open.h"
#include "weft/device/launch_progress.h"
#include "weft/io/checksum.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/train/work_line.h"

namespace weft {
namespace {

struct Heard : ProgressListener {
  void progress(const Work& work) override { done.push_back(work.done); }
  void part() override {
    if (++parts == stop_at) throw Stopped();
  }
  std::vector<int64_t> done;
  int parts = 0, stop_at = 0;
};

TEST(Progress, reaches_every_listener_of_the_thread) {
  report_progress({.what = "nobody listens"});
  Heard outer, inner;
  const Listening first(outer);
  report_progress({.what = "work", .done = 1});
  {
    const Listening second(inner);
    report_progress({.what = "work", .done = 2});
  }
  report_progress({.what = "work", .done = 3});
  EXPECT_EQ(outer.done, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(inner.done, (std::vector<int64_t>{2}));
}

TEST(Progress, reporting_does_not_change_checksums) {
  std::vector<std::byte> bytes((size_t(64) << 20) + 13);
  for (size_t i = 0; i < bytes.size(); i += 4099) bytes[i] = std::byte(i * 31);
  Heard heard;
  const Listening listening(heard);
  const auto tell = report_bytes("reading", bytes.size());
  const auto size = int64_t(bytes.size());
  EXPECT_EQ(crc32c(bytes, 7, tell), crc32c(bytes, 7));
  EXPECT_EQ(heard.done, (std::vector<int64_t>{0, int64_t(64) << 20, size}));
  heard.done.clear();
  EXPECT_EQ(xxh64(bytes, 7, tell), xxh64(bytes, 7));
  EXPECT_EQ(heard.done, (std::vector<int64_t>{0, size}));  // the last 13 bytes are not a whole stripe
}

// A stop at any launch of a forward and backward pass leaves the device usable and no memory behind.
TEST(Progress, work_can_be_stopped_at_every_launch) {
  const auto device = open_device(test_device());
  if (device->stream().captures()) GTEST_SKIP() << "launches of " << device->name() << " are not watched: they are captured";
  const Tensor x = Tensor::from_host(*device, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  Tensor w = Tensor::from_host(*device, {3, 2}, std::vector<float>{1, -1, 2, -2, 3, -3});
  w.set_requires_grad();
  const auto gradient = [&] {
    w.clear_grad();
    backward(sum_all(matmul(x, w)));
    return w.grad().to_host<float>();
  };
  const std::vector<float> expected = gradient();
  const int64_t held = device->pool().stats().in_use;
  Heard heard;
  const Listening listening(heard);
  const LaunchProgress launches(device->stream());
  gradient();
  const int all = heard.parts;
  EXPECT_GE(all, 3);
  for (heard.stop_at = 1; heard.stop_at <= all; ++heard.stop_at) {
    heard.parts = 0;
    EXPECT_THROW(gradient(), Stopped) << heard.stop_at;
  }
  heard.stop_at = 0;
  EXPECT_EQ(gradient(), expected);
  EXPECT_EQ(device->pool().stats().in_use, held);
}

TEST(WorkText, has_name_fraction_and_time) {
  const Work passes{.what = "step 12 of 900: micro-batch", .done = 2, .total = 8};
  EXPECT_EQ(work_text(passes, 0.5, 10, 80), "step 12 of 900: micro-batch 3 of 8 [████████░░░░░░░░░░░░░░░░░]  31 %  0:22 left");
  EXPECT_EQ(work_text({.what = "tokenising", .done = 25, .total = 100, .bytes = true}, 0, 30, 50),
            "tokenising [█████░░░░░░░░░░░░░░]  25 %  1:30 left");
  EXPECT_EQ(work_text({.what = "micro-batch", .total = 1}, 0, 7, 80), "micro-batch 1 of 1  0:07");  // its launches were never counted
  EXPECT_EQ(work_text({.what = "loading weights"}, 0, 65, 80), "loading weights  1:05");
}

TEST(WorkText, fits_its_columns) {
  const Work work{.what = "step 12 of 900: micro-batch", .done = 2, .total = 8};
  for (int columns = 2; columns < 100; ++columns) {
    const std::string line = work_text(work, 0.5, 10, columns);
    const auto characters = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
    EXPECT_LT(characters, columns) << line;
  }
  EXPECT_EQ(work_text(work, 0.5, 10, 48), "step 12 of 900: micro-batch 3 of 8  31 %");
}

}  // namespace
}  // namespace weft
