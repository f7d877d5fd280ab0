// Captured graphs: what is replayed, which memory they keep, and what cannot be captured.
#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/observed.h"
#include "tests/unit/test_device.h"
#include "weft/base/check.h"
#include "weft/device/replayed.h"
#include "weft/device/reservation.h"
#include "weft/generate/decode_step.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

template <class F>
std::optional<ErrorCode> error_code(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return {};
}

class Graphs : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device(test_device());
  Stream& stream = device->stream();
  const NoGrad no_grad;

  Tensor floats(const std::vector<float>& values) const { return Tensor::from_host(*device, {int64_t(values.size())}, values); }
};

TEST_F(Graphs, device_without_graphs_reports_it) {
  if (stream.captures()) GTEST_SKIP() << test_device() << " captures";
  EXPECT_EQ(message_of([&] { stream.capture([] {}); }), "capture: device cpu has no graphs: run the work itself");
}

// On every device: captured work reads the contents of its memory at replay.
TEST_F(Graphs, replay_repeats_the_work) {
  const Tensor x = floats({1, 2}), sum = zeros(*device, {2});
  Replayed work;
  std::vector<bool> called;
  for (float value : {1.0f, 10.0f, 100.0f, 1000.0f}) {
    x.write({value, 2 * value});
    called.push_back(work.run(stream, [&] { add_assign(sum, add(x, x)); }));
  }
  EXPECT_EQ(sum.to_host<float>(), (std::vector<float>{2222, 4444}));
  EXPECT_EQ(called, stream.captures() ? (std::vector<bool>{true, true, false, false}) : std::vector<bool>(4, true));
}

TEST_F(Graphs, memory_of_a_graph_is_not_reused) {
  if (!stream.captures()) GTEST_SKIP() << test_device() << " does not capture";
  const Tensor x = floats(std::vector<float>(5000, 3));
  Tensor y;
  const auto work = [&] { y = add(add(x, x), add(x, x)); };  // three temporaries and the result
  work();
  const int64_t before = device->pool().stats().reserved;
  auto graph = stream.capture(work);
  std::vector<Tensor> others;
  for (int i = 0; i < 8; ++i) others.push_back(full(*device, {5000}, -1));
  graph->replay();
  EXPECT_EQ(y.to_host<float>(), std::vector<float>(5000, 12));
  for (const Tensor& other : others) EXPECT_EQ(other.to_host<float>(), std::vector<float>(5000, -1));
  y = Tensor();
  others.clear();
  graph.reset();  // now its memory may be reused
  device->pool().trim();
  EXPECT_LE(device->pool().stats().reserved, before);
}

// Cached blocks of other sizes block a capture until they are freed; the graph made then is complete.
TEST_F(Graphs, capture_frees_cached_blocks_when_memory_is_short) {
  if (!stream.captures()) GTEST_SKIP() << test_device() << " does not capture";
  const int64_t limit = int64_t(64) << 20, block = int64_t(8) << 20;
  const auto small = open_device(test_device(), {.memory_limit = limit});
  const Tensor x = full(*small, {block / 4}, 3);
  Tensor y;
  const auto work = [&] { y = add(add(x, x), add(x, x)); };
  work();  // kernels are loaded
  y = Tensor();
  small->pool().trim();
  small->allocate(limit - 2 * block);  // freed, but cached
  const auto graph = small->stream().capture(work);
  graph->replay();
  EXPECT_EQ(y.to_host<float>(), std::vector<float>(size_t(block / 4), 12));
  EXPECT_EQ(error_code([&] { small->stream().capture([&] { small->allocate(2 * limit); }); }), ErrorCode::out_of_memory);
  graph->replay();
  EXPECT_EQ(y.to_host<float>(), std::vector<float>(size_t(block / 4), 12));
}

// A stream that treats memory like a capturing one, on the CPU: what the work allocates belongs to the graph, and nothing is freed
// meanwhile.
class CapturingStream : public Stream {
 public:
  using Stream::Stream;
  bool synchronous() const override { return true; }
  bool captures() const override { return true; }

 protected:
  void wait() override {}
  std::unique_ptr<Graph> capture_once(const std::function<void()>& work) override {
    struct Kept : Graph {
      explicit Kept(Device& device) : memory(device) {}
      void replay() override {}
      Reservation memory;
    };
    auto graph = std::make_unique<Kept>(device());
    work();
    graph->memory.end();
    return graph;
  }
};

TEST(Capture, is_retried_without_cached_blocks) {
  const auto device = open_device("cpu", {.memory_limit = 9 << 20});
  CapturingStream stream(*device);
  Replayed replayed;
  int calls = 0;
  const auto work = [&] {
    ++calls;
    device->allocate(4 << 20);
  };
  replayed.run(stream, work);
  device->pool().trim();
  device->allocate(6 << 20);  // freed, but cached: the work does not fit beside it
  EXPECT_TRUE(replayed.run(stream, work));
  EXPECT_EQ(calls, 3) << "once run, and captured at the second attempt";
  EXPECT_FALSE(replayed.run(stream, work));
  EXPECT_EQ(calls, 3);
  device->pool().trim();
  EXPECT_GE(device->pool().stats().reserved, 4 << 20) << "the graph's memory is still set aside";
}

TEST(Capture, out_of_memory_leaks_nothing) {
  const auto device = open_device("cpu", {.memory_limit = 8 << 20});
  CapturingStream stream(*device);
  int calls = 0;
  EXPECT_EQ(error_code([&] { stream.capture([&] { ++calls, device->allocate(16 << 20); }); }), ErrorCode::out_of_memory);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(error_code([&] { stream.capture([&] { ++calls, device->allocate(-1); }); }), ErrorCode::invalid_argument);
  EXPECT_EQ(calls, 3) << "only a lack of memory is tried again";
  EXPECT_EQ(device->pool().stats().reserved, 0);
  EXPECT_NO_THROW(device->allocate(4 << 20));
}

TEST_F(Graphs, capture_error_names_the_op_and_leaks_nothing) {
  if (!stream.captures()) GTEST_SKIP() << test_device() << " does not capture";
  const Tensor x = floats({1, 2});
  EXPECT_NE(message_of([&] {
              stream.capture([&] { floats({3}); });
            }).find("upload: a copy between host and device is not possible while a graph is being captured"),
            std::string::npos);
  EXPECT_NE(message_of([&] { stream.capture([&] { x.to_host<float>(); }); }).find("download"), std::string::npos);
  EXPECT_NE(message_of([&] { stream.capture([&] { device->synchronize(); }); }).find("synchronize"), std::string::npos);
  EXPECT_NE(message_of([&] { stream.capture([&] { matmul(x.reshape({1, 2}), x.reshape({1, 2})); }); }).find("inner extents"),
            std::string::npos);
  EXPECT_EQ(add(x, x).to_host<float>(), (std::vector<float>{2, 4}));
}

// More shapes than the cache of library plans holds: a graph does not need them.
TEST_F(Graphs, matmuls_of_many_shapes) {
  const Tensor a = floats(std::vector<float>(4096, 1)), b = floats({1, 2, 3, 4});
  Replayed work;
  Tensor product;
  const auto multiply = [&] { product = matmul(b.reshape({2, 2}), b.reshape({2, 2})); };
  for (int i = 0; i < 3; ++i) {
    work.run(stream, multiply);
    EXPECT_EQ(product.to_host<float>(), (std::vector<float>{7, 10, 15, 22}));
    for (int64_t n = 1; n <= 1100; ++n) {
      const Tensor ones = a.part(0, 0, n);
      EXPECT_EQ(matmul(ones.reshape({1, n}), ones.reshape({n, 1})).item<float>(), float(n));
    }
  }
}

// A replayed decoding step is bitwise equal to one that is launched.
TEST_F(Graphs, replayed_decoding_is_bitwise_equal) {
  for (const char* name : {"llama-tiny", "shakespeare-char"}) {
    ModelConfig c = preset(name);
    c.vocab_size = 211, c.layers = 2, c.max_positions = 64;
    const auto model = make_model(c, *device, 3, {.dtype = DType::f32});
    KvCache one = model->make_cache(2, 40), other = model->make_cache(2, 40);
    const Tensor prompt = Tensor::from_host(*device, {2, 3}, std::vector<int32_t>{1, 2, 3, 4, 5, 6});
    model->last_logits(prompt, one, {3, 2});
    model->last_logits(prompt, other, {3, 2});
    DecodeStep step(*model, one);
    for (int32_t i = 0; i < 20; ++i) {
      const std::vector<int32_t> newest = {i, 200 - i};
      const auto expected = model->last_logits(Tensor::from_host(*device, {2, 1}, newest), other).to_host<float>();
      EXPECT_EQ(step(newest).to_host<float>(), expected) << name << ", step " << i;
    }
  }
}

// An allocation larger than the memory: the error has the figures, and the next allocation succeeds.
TEST_F(Graphs, out_of_memory_leaves_the_device_usable) {
  const auto small = open_device(test_device(), {.memory_limit = 1 << 20});
  for (const auto& [on, bytes] : {std::pair{small, int64_t(2) << 20}, {device, int64_t(1) << 50}}) {
    const std::string message = message_of([&, on = on, bytes = bytes] { on->allocate(bytes); });
    for (const std::string& part : {join(bytes, " bytes asked for"), std::string(" bytes free"), std::string("largest block left ")})
      EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find("unknown"), std::string::npos) << message;
    EXPECT_EQ(full(*on, {100}, 2).to_host<float>(), std::vector<float>(100, 2));
  }
}

TEST(OpenDevice, missing_device_index_is_an_error) {
  if (on_cpu()) GTEST_SKIP() << "the CPU has no numbers";
  EXPECT_NE(message_of([] { open_device("cuda:99"); }).find("there is no cuda:99, this machine has "), std::string::npos);
  EXPECT_NE(message_of([] { open_device("cuda:x"); }).find("unknown device 'cuda:x'"), std::string::npos);
  EXPECT_NE(message_of([] { open_device("cuda:-1"); }), "no error");
}

}  // namespace
}  // namespace weft
