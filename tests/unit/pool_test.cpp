#include "weft/device/pool.h"

#include <gtest/gtest.h>

#include <cstring>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/tensor/tensor.h"

namespace weft {
namespace {

uint8_t* bytes(const Buffer& buffer) { return static_cast<uint8_t*>(buffer.handle()) + buffer.offset(); }

TEST(pool, reuses_what_was_freed) {
  const auto device = open_device("cpu");
  void* first = device->allocate(1000)->handle();
  EXPECT_EQ(device->allocate(1000)->handle(), first);
  EXPECT_EQ(device->pool().stats().live, 0);
  EXPECT_EQ(device->pool().stats().in_use, 0);
  EXPECT_EQ(device->pool().stats().high_water, 1024);
}

TEST(pool, ten_thousand_steps_do_not_grow) {
  const auto device = open_device("cpu");
  int64_t reserved = 0;
  for (int step = 0; step < 10'000; ++step) {
    const auto a = device->allocate(5000), b = device->allocate(70'000), c = device->allocate(5000);
    if (step == 0) reserved = device->pool().stats().reserved;
  }
  EXPECT_EQ(device->pool().stats().reserved, reserved);
}

TEST(pool, trim_gives_everything_back) {
  const auto device = open_device("cpu");
  device->allocate(1 << 20);
  EXPECT_GT(device->pool().stats().reserved, 0);
  device->pool().trim();
  EXPECT_EQ(device->pool().stats().reserved, 0);
}

TEST(pool, out_of_memory_says_what_was_asked_and_the_process_goes_on) {
  const auto device = open_device("cpu", {.memory_limit = 1 << 20});
  const auto held = device->allocate(512 << 10);
  try {
    device->allocate(1 << 20);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("1048576 bytes asked for"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("largest block left"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(device->allocate(1000));
}

TEST(pool, cached_blocks_make_room_for_another_size) {
  const auto device = open_device("cpu", {.memory_limit = 2 << 20});
  device->allocate(1500 << 10);  // freed, but cached
  EXPECT_NO_THROW(device->allocate(1200 << 10));
}

TEST(pool, refuses_sizes_that_make_no_sense) {
  const auto device = open_device("cpu");
  EXPECT_THROW(device->allocate(-1), Error);
  EXPECT_THROW(Tensor::empty(*device, {int64_t(1) << 62}), Error);
}

TEST(pool, checked_buffers_start_as_nan) {
  const auto device = open_device("cpu", {.checked = true});
  for (float value : Tensor::empty(*device, {5}).to_host<float>()) EXPECT_TRUE(value != value);
  for (bf16 value : Tensor::empty(*device, {5}, DType::bf16).to_host<bf16>()) EXPECT_TRUE(float(value) != float(value));
}

TEST(pool, a_write_one_byte_past_the_end_is_found) {
  const auto device = open_device("cpu", {.checked = true});
  for (int64_t at : {int64_t(-1), int64_t(100)}) {
    const auto buffer = device->allocate(100);
    bytes(*buffer)[at] = 0;
    EXPECT_THROW(device->pool().verify(), Error);
    EXPECT_NO_THROW(device->pool().verify());  // reported once
  }
}

TEST(pool, an_overrun_is_found_even_after_the_buffer_is_gone) {
  const auto device = open_device("cpu", {.checked = true});
  {
    const auto buffer = device->allocate(100);
    bytes(*buffer)[100] = 0;
  }
  EXPECT_THROW(device->pool().verify(), Error);
}

TEST(device, says_what_it_is) {
  const auto device = open_device("cpu", {.threads = 1});
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_EQ(name(device->dialect()), "C");
  EXPECT_NE(device->description().find("1 thread,"), std::string::npos) << device->description();
  const MemoryInfo memory = device->memory();
  EXPECT_GT(memory.total, 0);
  EXPECT_GT(memory.free, 0);
  EXPECT_LE(memory.free, memory.total);
}

TEST(device, refuses_names_and_options_that_make_no_sense) {
  EXPECT_THROW(open_device("tpu"), Error);
  EXPECT_THROW(open_device(""), Error);
  EXPECT_THROW(open_device("cpu", {.threads = -1}), Error);
  EXPECT_THROW(open_device("cpu", {.memory_limit = -1}), Error);
}

}  // namespace
}  // namespace weft
