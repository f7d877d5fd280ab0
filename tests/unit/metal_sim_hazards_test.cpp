// Dispatches of one command buffer: if one accesses what another writes without a barrier between them, the checked simulator names both
// kernels with file and line.
#include "tests/unit/metal_sim_cases.h"

namespace weft::metal {
namespace {

constexpr const char* kText = R"(#include <metal_stdlib>
using namespace metal;
kernel void produce(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  y[i] = float(i);
}
kernel void consume(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  y[i] = 2.0f * x[i];
}
kernel void even(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  if (i % 2 == 0) y[i] = 1.0f;
}
kernel void odd(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  if (i % 2 == 1) y[i] = 1.0f;
}
)";

class MetalSimDispatches : public testing::Test {
 protected:
  void encode(const char* kernel, std::vector<Binding> bindings) {
    pipelines_.push_back(library_->pipeline(kernel, {}));
    gpu_->encode({"test", pipelines_.back().get(), std::move(bindings), {2, 1, 1}, 32, 0});
  }
  std::string error() {
    return error_of([&] { gpu_->wait(); });
  }
  void expect_conflict(std::initializer_list<const char*> words) {
    const std::string said = error();
    for (const char* word : words) EXPECT_NE(said.find(word), std::string::npos) << word << " in: " << said;
    EXPECT_NE(said.find("no barrier between"), std::string::npos) << said;
  }

  std::unique_ptr<Gpu> gpu_ = open_simulator(SimMode::checked);
  std::shared_ptr<Library> library_ = gpu_->library(kText, "two.metal");
  std::vector<std::shared_ptr<Pipeline>> pipelines_;
  Data<float> a_{*gpu_, std::vector<float>(128)}, b_{*gpu_, std::vector<float>(128)};
};

TEST_F(MetalSimDispatches, ReadAfterWrite) {
  encode("produce", {a_.at(0)});
  encode("consume", {a_.at(0), b_.at(1)});
  expect_conflict({"kernel 'produce'", "writes 'y', byte 0, at two.metal:4", "kernel 'consume'", "reads 'x', byte 0, at two.metal:7"});
}

TEST_F(MetalSimDispatches, WriteAfterRead) {
  encode("consume", {a_.at(0), b_.at(1)});
  encode("produce", {a_.at(0, 32, 64)});
  expect_conflict({"kernel 'consume'", "reads 'x', byte 128, at two.metal:7", "kernel 'produce'", "writes 'y', byte 0, at two.metal:4"});
}

TEST_F(MetalSimDispatches, WriteAfterWriteOfAnEarlierDispatch) {
  encode("produce", {a_.at(0)});
  encode("produce", {a_.at(0, 64, 64)});
  encode("even", {a_.at(0, 63, 64)});
  expect_conflict({"kernel 'produce'", "two.metal:4", "kernel 'even'", "writes 'y', byte 0, at two.metal:10"});
}

TEST_F(MetalSimDispatches, ABarrierOrdersThem) {
  encode("produce", {a_.at(0)});
  gpu_->barrier();
  encode("consume", {a_.at(0), b_.at(1)});
  gpu_->barrier();
  encode("produce", {a_.at(0)});
  EXPECT_EQ(error(), "");
  EXPECT_EQ(b_.values()[5], 10.0f);
}

TEST_F(MetalSimDispatches, CommandBuffersAreOrdered) {
  encode("produce", {a_.at(0)});
  gpu_->commit();
  encode("consume", {a_.at(0), b_.at(1)});
  EXPECT_EQ(error(), "");
}

// Accessed bytes count, not bound bytes.
TEST_F(MetalSimDispatches, DisjointBytesOfOneBufferDoNotConflict) {
  encode("even", {a_.at(0)});
  encode("odd", {a_.at(0)});
  encode("consume", {b_.at(0, 0, 64), b_.at(1, 64, 64)});
  EXPECT_EQ(error(), "");
}

TEST_F(MetalSimDispatches, WriteToAReadOnlyBinding) {
  Binding binding = a_.at(0);
  binding.read_only = true;
  encode("produce", {binding});
  const std::string said = error();
  EXPECT_NE(said.find("write at two.metal:4 to 'y', which is bound as read-only"), std::string::npos) << said;
}

// Two bindings of the same bytes share memory, and each has its own bounds.
TEST_F(MetalSimDispatches, BindingsThatShareBytes) {
  encode("consume", {a_.at(0, 0, 64), a_.at(1, 0, 64)});
  EXPECT_EQ(error(), "");
  encode("consume", {a_.at(0, 0, 40), a_.at(1, 8, 64)});
  const std::string said = error();
  EXPECT_NE(said.find("race on"), std::string::npos) << said;
  EXPECT_NE(said.find("at byte 160 of 'x', which has 160 bytes"), std::string::npos) << said;
}

}  // namespace
}  // namespace weft::metal
