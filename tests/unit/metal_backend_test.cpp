// The code above Metal's seam, on a GPU that only records its calls.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "weft/backends/metal/metal_device.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/tile/metal/launch.h"
#include "weft/tile/metal/runtime.h"
#include "weft/tile/metal/source.h"

namespace weft {
namespace {

using metal::Dispatch;

struct Told {
  std::vector<std::string> events;  // the op of a dispatch, "barrier", "commit", "wait"
  std::vector<Dispatch> dispatches;
};

class Pipe : public metal::Pipeline {
 public:
  static inline int live = 0;
  Pipe() { ++live; }
  ~Pipe() override { --live; }
  int most_threads() const override { return 1024; }
};
class Texts : public metal::Library {
  std::shared_ptr<metal::Pipeline> pipeline(std::string_view, const std::vector<metal::Constant>&) override {
    return std::make_shared<Pipe>();
  }
};

class WrittenDown : public metal::Gpu {
 public:
  explicit WrittenDown(Told& told) : told_(told) {}
  std::string description() const override { return "writes down"; }
  DeviceTraits traits() const override { return {}; }
  int64_t total_memory() const override { return 1 << 30; }
  int64_t free_memory() const override { return 1 << 30; }
  void* new_buffer(int64_t bytes) override {
    auto* memory = new std::vector<char>(size_t(bytes) + 1);
    return memory;
  }
  void delete_buffer(void* buffer) override { delete static_cast<std::vector<char>*>(buffer); }
  char* contents(void* buffer) override { return static_cast<std::vector<char>*>(buffer)->data(); }
  std::shared_ptr<metal::Library> library(const std::string&, const std::string&) override { return std::make_shared<Texts>(); }
  void encode(const Dispatch& dispatch) override {
    told_.events.push_back(dispatch.op);
    told_.dispatches.push_back(dispatch);
  }
  void barrier() override { told_.events.push_back("barrier"); }
  void commit() override { told_.events.push_back("commit"); }
  void wait() override { told_.events.push_back("wait"); }
  metal::Counters counters() override { return {}; }
  void reset_counters() override {}

 private:
  Told& told_;
};

using Events = std::vector<std::string>;

class MetalBackend : public ::testing::Test {
 protected:
  Told told;
  std::shared_ptr<Device> device = metal::make_device("metal-test", std::make_unique<WrittenDown>(told), {});
  Tensor tensor(int64_t n) { return Tensor::empty(*device, {n}, DType::f32); }
};

TEST_F(MetalBackend, barriers_only_between_conflicting_bytes) {
  const Tensor a = tensor(64), b = tensor(64), c = tensor(64), d = tensor(64);
  copy(a, b);
  copy(c, d);  // no common bytes: may run concurrently
  copy(a, d);  // d is written twice
  copy(a, c);  // c was read before the last barrier
  copy(c, b);  // c was written
  EXPECT_EQ(told.events, (Events{"copy", "copy", "barrier", "copy", "copy", "barrier", "copy"}));
}

TEST_F(MetalBackend, disjoint_parts_of_a_buffer_need_no_barrier) {
  const Tensor whole = tensor(64), left = whole.part(0, 0, 32), right = whole.part(0, 32, 64);
  fill(left, 1);
  fill(right, 2);
  copy(left, right);
  EXPECT_EQ(told.events, (Events{"fill", "fill", "barrier", "copy"}));
  EXPECT_EQ(told.dispatches[1].bindings[0].offset, told.dispatches[0].bindings[0].offset + 128);
  EXPECT_EQ(told.dispatches[1].bindings[0].bytes, 128);
}

TEST_F(MetalBackend, host_waits_only_for_running_work) {
  const Tensor a = tensor(64), b = tensor(64), c = tensor(64);
  std::vector<float> host(64);
  copy(a, b);
  device->upload(*c.view().buffer, 0, host.data(), 256);
  EXPECT_EQ(told.events, (Events{"copy"}));
  device->download(host.data(), *b.view().buffer, 0, 256);
  EXPECT_EQ(told.events, (Events{"copy", "wait"}));
  device->upload(*a.view().buffer, 0, host.data(), 256);
  EXPECT_EQ(told.events, (Events{"copy", "wait"}));
}

TEST_F(MetalBackend, dispatches_are_committed_in_batches) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 130; ++i) tensors.push_back(tensor(8));
  for (const Tensor& t : tensors) fill(t, 1);
  EXPECT_EQ(std::count(told.events.begin(), told.events.end(), "commit"), 2);
  EXPECT_EQ(std::count(told.events.begin(), told.events.end(), "barrier"), 0);
}

TEST_F(MetalBackend, the_earliest_fault_is_raised_with_its_op) {
  Stream& stream = device->stream();
  const auto launching = [&](const char* op) {
    stream.launching(op);
    const metal::Argument place = metal::fault(stream);
    return reinterpret_cast<metal_fault::Record*>(metal::gpu_of(*device).contents(place.buffer) + place.offset);
  };
  launching("quiet");
  metal_fault::Record* first = launching("first");
  metal_fault::Record* second = launching("second");
  *second = {1, metal_fault::bad_step, 0, 0, 0};
  *first = {1, metal_fault::id_out_of_range, 99, 7, 50};
  try {
    device->synchronize();
    FAIL() << "nothing was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_fault);
    EXPECT_EQ(error.where(), "first");
    EXPECT_NE(std::string(error.what()).find("id 99 at position 7 is out of range [0, 50)"), std::string::npos) << error.what();
  }
  device->synchronize();  // once
}

// Any number of expressions: the most recently used kernels stay, the others are evicted when no work is running.
TEST_F(MetalBackend, kernels_of_expressions_are_evicted) {
  metal::Pipelines& pipelines = metal::of(device->stream()).pipelines();
  const int most = int(metal::Pipelines::kMostTexts), before = Pipe::live;
  metal::Pipeline* const first = &pipelines.of_text(0, "text", "kernel");
  for (int serial = 1; serial < 4 * most; ++serial) {
    pipelines.of_text(uint64_t(serial), "text", "kernel");
    EXPECT_EQ(&pipelines.of_text(0, "text", "kernel"), first);
    ASSERT_LE(Pipe::live - before, most);
  }
  EXPECT_GE(Pipe::live - before, most / 2);
  EXPECT_GE(std::count(told.events.begin(), told.events.end(), "wait"), 3);
}

TEST(MetalSource, headers_are_included_once_with_line_numbers) {
  const std::string text = metal::source("weft/ops/fill/metal.metal");
  const auto count = [&](std::string_view what) {
    int n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("#include \""), 0);
  EXPECT_EQ(count("#line 1 \"weft/tile/metal/strided_axes.h\""), 1);
  EXPECT_GE(count("#line 4 \"weft/ops/fill/metal.metal\""), 1);
  EXPECT_EQ(count("fp contract(off)"), 1);
  EXPECT_THROW(metal::source("weft/ops/fill/other.metal"), Error);
}

}  // namespace
}  // namespace weft
