#include "weft/device/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "weft/backends/cpu/system_memory.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/autograd/backward.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/tensor/tensor.h"

namespace weft {
namespace {

uint8_t* bytes(const Buffer& buffer) { return static_cast<uint8_t*>(buffer.handle()) + buffer.offset(); }

uint8_t* bytes_end(const Buffer& buffer) { return bytes(buffer) + buffer.bytes(); }

TEST(pool, reuses_freed_blocks) {
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

TEST(pool, trim_returns_all_memory) {
  const auto device = open_device("cpu");
  device->allocate(1 << 20);
  EXPECT_GT(device->pool().stats().reserved, 0);
  device->pool().trim();
  EXPECT_EQ(device->pool().stats().reserved, 0);
}

// The memory behaviour of a captured graph, on a pool that a test can inspect.
TEST(pool, reserved_blocks_are_not_shared) {
  for (bool checked : {false, true}) {
    const auto device = open_device("cpu", {.checked = checked});
    Pool& pool = device->pool();
    const int64_t block = 1024 + (pool.checked() ? 2 * Pool::kGuardBytes : 0);
    const auto before = device->allocate(1000);
    device->allocate(1000);  // one more is cached
    const int64_t reservation = pool.begin_reservation();
    void* const inside = device->allocate(1000)->handle();
    EXPECT_EQ(device->allocate(1000)->handle(), inside);  // reused inside the capture
    auto result = device->allocate(1000);
    EXPECT_EQ(result->handle(), inside);
    void* const outlives = result->handle();
    pool.end_reservation();
    EXPECT_NE(device->allocate(1000)->handle(), inside);
    result.reset();
    EXPECT_NE(device->allocate(1000)->handle(), outlives);  // still owned by the graph
    pool.trim();
    EXPECT_EQ(pool.stats().reserved, 2 * block);
    EXPECT_NO_THROW(pool.verify());
    pool.unreserve(reservation);
    EXPECT_EQ(device->allocate(1000)->handle(), inside);
    pool.trim();
    EXPECT_EQ(pool.stats().reserved, block);
  }
}

TEST(pool, out_of_memory_error_has_figures_and_is_recoverable) {
  const auto device = open_device("cpu", {.memory_limit = 1 << 20});
  const auto held = device->allocate(512 << 10);
  try {
    device->allocate(1 << 20);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("1048576 bytes asked for"), std::string::npos) << error.what();
    const int64_t guards = device->pool().checked() ? 2 * Pool::kGuardBytes : 0, free = 524288 - guards;
    const std::string room = join(free, " bytes free, largest block left ", free - guards, " bytes; 524288 bytes are in use by 1 buffers");
    EXPECT_NE(std::string(error.what()).find(room), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(device->allocate(1000));
}

TEST(pool, cached_blocks_are_freed_for_another_size) {
  const auto device = open_device("cpu", {.memory_limit = 2 << 20});
  device->allocate(1500 << 10);  // freed, stays cached
  EXPECT_NO_THROW(device->allocate(1200 << 10));
}

TEST(pool, rejects_invalid_sizes) {
  const auto device = open_device("cpu");
  EXPECT_THROW(device->allocate(-1), Error);
  EXPECT_THROW(Tensor::empty(*device, {int64_t(1) << 62}), Error);
}

TEST(pool, checked_buffers_start_as_nan) {
  const auto device = open_device("cpu", {.checked = true});
  for (float value : Tensor::empty(*device, {5}).to_host<float>()) EXPECT_TRUE(value != value);
  for (bf16 value : Tensor::empty(*device, {5}, DType::bf16).to_host<bf16>()) EXPECT_TRUE(float(value) != float(value));
}

TEST(pool, detects_a_write_past_the_end) {
  const auto device = open_device("cpu", {.checked = true});
  for (int64_t at : {int64_t(-1), int64_t(100)}) {
    const auto buffer = device->allocate(100);
    bytes(*buffer)[at] = 0;
    EXPECT_THROW(device->pool().verify(), Error);
    EXPECT_NO_THROW(device->pool().verify());  // reported once
  }
}

TEST(pool, detects_an_overrun_of_a_freed_buffer) {
  const auto device = open_device("cpu", {.checked = true});
  {
    const auto buffer = device->allocate(100);
    bytes(*buffer)[100] = 0;
  }
  EXPECT_THROW(device->pool().verify(), Error);
}

TEST(pool, counts_each_use_separately) {
  const auto device = open_device("cpu");
  const auto stats = [&] { return device->pool().stats(); };
  std::shared_ptr<Buffer> weights, moments, outer;
  {
    const MemoryScope scope(*device, MemoryUse::weights);
    weights = device->allocate(1000);
    {
      const MemoryScope inner(*device, MemoryUse::optimizer);
      moments = device->allocate(3000);
    }
    outer = device->allocate(300);
  }
  const auto activation = device->allocate(5000);
  device->allocate(256, MemoryUse::workspace);
  EXPECT_EQ(moments->use(), MemoryUse::optimizer);
  EXPECT_EQ(activation->use(), MemoryUse::activations);
  EXPECT_EQ(stats().of(MemoryUse::weights).in_use, 1024 + 512);
  EXPECT_EQ(stats().of(MemoryUse::optimizer).in_use, 3072);
  EXPECT_EQ(stats().of(MemoryUse::activations).in_use, 5120);
  EXPECT_EQ(stats().of(MemoryUse::gradients).in_use, 0);
  EXPECT_EQ(stats().of(MemoryUse::workspace).in_use, 0);
  EXPECT_EQ(stats().of(MemoryUse::workspace).high_water, 256);
}

TEST(pool, uses_at_the_peak_add_up_to_it) {
  const auto device = open_device("cpu");
  const auto weights = device->allocate(2000, MemoryUse::weights);
  device->allocate(9000, MemoryUse::activations);  // the most activations, but not at the peak of all uses
  auto late = device->allocate(8000, MemoryUse::gradients);
  device->allocate(4096, MemoryUse::activations);
  PoolStats stats = device->pool().stats();
  EXPECT_EQ(stats.high_water, 2048 + 8192 + 4096);
  EXPECT_EQ(stats.of(MemoryUse::activations).high_water, 10240);
  EXPECT_EQ(stats.of(MemoryUse::activations).at_peak, 4096);
  int64_t sum = 0;
  for (const UseStats& use : stats.uses) sum += use.at_peak;
  EXPECT_EQ(sum, stats.high_water);
  late.reset();
  device->pool().reset_high_water();
  stats = device->pool().stats();
  EXPECT_EQ(stats.high_water, 2048);
  EXPECT_EQ(stats.of(MemoryUse::gradients).high_water, 0);
  EXPECT_EQ(stats.of(MemoryUse::weights).at_peak, 2048);
}

TEST(pool, counts_of_a_step_are_reproducible) {
  PoolStats runs[2];
  for (PoolStats& stats : runs) {
    const auto device = open_device("cpu", {.threads = 2});
    Tensor w;
    {
      const MemoryScope scope(*device, MemoryUse::weights);
      w = Tensor::from_host(*device, {64, 64}, std::vector<float>(64 * 64, 0.5f)).set_requires_grad();
    }
    const Tensor x = Tensor::from_host(*device, {32, 64}, std::vector<float>(32 * 64, 1.0f));
    backward(matmul(x, w), Tensor::from_host(*device, {32, 64}, std::vector<float>(32 * 64, 2.0f)));
    stats = device->pool().stats();
    EXPECT_EQ(stats.of(MemoryUse::weights).in_use, 64 * 64 * 4);
    EXPECT_EQ(stats.of(MemoryUse::gradients).in_use, 64 * 64 * 4);
    EXPECT_EQ(stats.of(MemoryUse::activations).in_use, 32 * 64 * 4);
    EXPECT_EQ(stats.of(MemoryUse::workspace).in_use, 0);
  }
  EXPECT_EQ(std::memcmp(&runs[0], &runs[1], sizeof(PoolStats)), 0);
}

TEST(pool, large_blocks_waste_at_most_a_seventeenth) {
  const auto device = open_device("cpu");
  for (int64_t bytes : {int64_t(2) << 20, (int64_t(2) << 20) + 1, int64_t(5'000'000), int64_t(33'000'001)}) {
    const auto buffer = device->allocate(bytes);
    EXPECT_LE(device->pool().stats().in_use * 16, bytes * 17);
    bytes_end(*buffer)[-1] = 1;  // the last byte is usable
  }
}

// Bytes of huge pages behind the mapping of `address`, from the kernel; -1 if unknown.
int64_t huge_bytes_at(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) inside = from <= uintptr_t(address) && uintptr_t(address) < to;
    long kib = 0;
    if (inside && std::sscanf(line.c_str(), "AnonHugePages: %ld kB", &kib) == 1) return int64_t(kib) << 10;
  }
  return -1;
}

bool offers_huge_pages() {
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
  return setting.find("[madvise]") != std::string::npos || setting.find("[always]") != std::string::npos;
}

TEST(pool, large_blocks_use_huge_pages) {
  const auto device = open_device("cpu");
  const int64_t huge = int64_t(2) << 20, size = 8 * huge;
  const auto buffer = device->allocate(size);
  if (!device->pool().checked()) {
    EXPECT_EQ(uintptr_t(buffer->handle()) % uintptr_t(huge), 0u);
  }
  std::memset(bytes(*buffer), 1, size_t(size));
  if (!offers_huge_pages()) GTEST_SKIP() << "no transparent huge pages here";
  const int64_t got = huge_bytes_at(bytes(*buffer));
  if (got <= 0) GTEST_SKIP() << "the kernel gave no huge pages";
  EXPECT_GE(got, size - huge);
}

TEST(pool, medium_blocks_share_huge_pages) {
  const auto device = open_device("cpu");
  if (device->pool().checked()) GTEST_SKIP() << "a checked pool keeps its blocks apart";
  const int64_t huge = int64_t(2) << 20, size = 448 << 10;
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (int64_t i = 0; i < 9; ++i) {
    buffers.push_back(device->allocate(size));
    std::memset(bytes(*buffers.back()), int(i), size_t(size));
  }
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(bytes_end(*buffers[size_t(i)])[-1], i) << "blocks do not overlap";
  if (!offers_huge_pages()) GTEST_SKIP() << "no transparent huge pages here";
  const int64_t got = huge_bytes_at(bytes(*buffers.front()));
  if (got <= 0) GTEST_SKIP() << "the kernel gave no huge pages";
  EXPECT_GE(got, 9 * size / huge * huge);
}

// Blocks freed in any order are merged and can be allocated as one.
TEST(pool, shared_mappings_are_reused) {
  cpu::SystemMemory memory(false);
  const int64_t part = 64 << 10, most = 32 * part - part, parts = 512;  // a whole mapping
  std::vector<char*> handles;
  for (int64_t i = 0; i < parts; ++i) handles.push_back(static_cast<char*>(memory.obtain(part)));
  EXPECT_EQ(handles.back() - handles.front(), (parts - 1) * part);
  for (int64_t i : {40, 42, 41}) memory.give_back(handles[size_t(i)], part);
  void* again = memory.obtain(3 * part);
  EXPECT_EQ(again, handles[40]);
  std::memset(again, 1, size_t(3 * part));
  void* elsewhere = memory.obtain(most);
  EXPECT_TRUE(elsewhere < handles.front() || elsewhere > handles.back());
  memory.give_back(again, 3 * part);
  memory.give_back(elsewhere, most);
  for (int64_t i = parts - 1; i >= 0; --i)
    if (i < 40 || i > 42) memory.give_back(handles[size_t(i)], part);
}

// Resident bytes of the mappings of [from, from + bytes), from the kernel; -1 if unknown.
int64_t resident_bytes_at(const void* from, int64_t bytes) {
  std::ifstream maps("/proc/self/smaps");
  int64_t resident = -1;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long first = 0, last = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2)
      inside = first < uintptr_t(from) + uintptr_t(bytes) && uintptr_t(from) < last;
    long kib = 0;
    if (inside && std::sscanf(line.c_str(), "Rss: %ld kB", &kib) == 1) resident = std::max<int64_t>(0, resident) + (int64_t(kib) << 10);
  }
  return resident;
}

TEST(pool, held_memory_includes_cached_blocks) {
  const auto device = open_device("cpu");
  const auto stats = [&] { return device->pool().stats(); };
  const int64_t block = int64_t(8) << 20, guards = device->pool().checked() ? 2 * Pool::kGuardBytes : 0;
  device->allocate(block);
  device->allocate(2 * block);
  EXPECT_EQ(stats().high_water, 2 * block);
  EXPECT_LE(std::abs(double(stats().held_high_water - 3 * (block + guards))), 3 * 4096.0) << "the first is still cached";
  EXPECT_EQ(stats().held, stats().held_high_water);
  device->pool().trim();
  EXPECT_EQ(stats().held, 0);
  device->pool().reset_high_water();
  EXPECT_EQ(stats().held_high_water, 0);
}

// A size class may be larger than the request: pages that are never written are not resident.
TEST(pool, unused_end_of_a_block_is_not_held) {
  const auto device = open_device("cpu");
  if (device->pool().checked()) GTEST_SKIP() << "a checked pool writes to all of a block";
  const int64_t page = int64_t(2) << 20, used = 32 * page + 100, larger = 34 * page;  // in a size class that is four pages wide at 64 MiB
  {
    const auto buffer = device->allocate(used);
    std::memset(bytes(*buffer), 1, size_t(used));
    const int64_t held = device->pool().stats().held;
    EXPECT_GE(held, used);
    EXPECT_LE(held, used + page);
    EXPECT_EQ(device->pool().stats().reserved, 34 * page);
    const int64_t resident = resident_bytes_at(bytes(*buffer), used);
    if (resident >= 0) {
      EXPECT_LE(std::abs(double(resident - held)), double(page));
    }
  }
  device->allocate(larger);  // the same block, with more of it used
  EXPECT_EQ(device->pool().stats().held, larger);
}

TEST(pool, empty_shared_pages_are_returned) {
  cpu::SystemMemory memory(false);
  const int64_t part = 512 << 10, huge = int64_t(2) << 20, parts = 20;
  std::vector<char*> handles;
  for (int64_t i = 0; i < parts; ++i) {
    handles.push_back(static_cast<char*>(memory.obtain(part)));
    std::memset(handles.back(), 1, size_t(part));
  }
  EXPECT_EQ(memory.held(), parts * part);
  for (int64_t i = 1; i < parts; ++i) memory.give_back(handles[size_t(i)], part);
  EXPECT_EQ(memory.held(), huge) << "the first part keeps its page";
  const int64_t resident = resident_bytes_at(handles[0], part);
  if (resident >= 0) {
    EXPECT_LE(resident, 2 * huge);
  }
  EXPECT_EQ(handles[0][0], 1);
  memory.give_back(handles[0], part);
  EXPECT_EQ(memory.held(), 0);
}

TEST(device, description) {
  const auto device = open_device("cpu", {.threads = 1});
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_EQ(name(device->dialect()), "C");
  EXPECT_NE(device->description().find("1 thread,"), std::string::npos) << device->description();
  const MemoryInfo memory = device->memory();
  EXPECT_GT(memory.total, 0);
  EXPECT_GT(memory.free, 0);
  EXPECT_LE(memory.free, memory.total);
}

TEST(device, rejects_unknown_names_and_options) {
  EXPECT_THROW(open_device("tpu"), Error);
  EXPECT_THROW(open_device(""), Error);
  EXPECT_THROW(open_device("cpu", {.threads = -1}), Error);
  EXPECT_THROW(open_device("cpu", {.memory_limit = -1}), Error);
}

}  // namespace
}  // namespace weft
