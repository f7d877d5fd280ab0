#include "weft/device/pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "weft/base/check.h"

namespace weft {

Pool::~Pool() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

// Multiples of 256 bytes up to 4 KiB, then four classes per power of two: at most a fifth is wasted.
int64_t Pool::size_class(int64_t bytes) {
  constexpr int64_t kFine = 4096, kStep = 256;
  if (bytes <= kFine) return std::max<int64_t>((bytes + kStep - 1) / kStep * kStep, kStep);
  const int64_t quarter = int64_t(std::bit_floor(uint64_t(bytes - 1))) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

Block Pool::allocate(int64_t bytes) {
  check(bytes >= 0 && bytes < (int64_t(1) << 60), "allocate", "cannot allocate ", bytes, " bytes");
  const int64_t capacity = size_class(bytes);
  const int64_t guard = checked_ ? kGuardBytes : 0;
  const int64_t total = capacity + 2 * guard;

  std::lock_guard lock(mutex_);
  void* handle = nullptr;
  if (auto cached = free_.find(capacity); cached != free_.end() && !cached->second.empty()) {
    handle = cached->second.back();
    cached->second.pop_back();
  } else {
    const auto over_limit = [&] { return limit_ > 0 && stats_.reserved + total > limit_; };
    if (!over_limit()) handle = source_.obtain(total);
    if (!handle) {  // cached blocks of other sizes may stand in the way
      trim_locked();
      if (!over_limit()) handle = source_.obtain(total);
    }
    if (!handle)
      fail(ErrorCode::out_of_memory, "allocate", bytes, " bytes asked for, ", stats_.in_use, " bytes in use by ", stats_.live,
           " buffers", limit_ > 0 ? join(", limit ", limit_, " bytes, largest block left ", std::max<int64_t>(0, limit_ - stats_.reserved - 2 * guard), " bytes") : "");
    stats_.reserved += total;
  }
  const Block block{handle, guard, bytes, capacity};
  if (checked_) arm(block);
  stats_.in_use += capacity;
  stats_.high_water = std::max(stats_.high_water, stats_.in_use);
  ++stats_.live;
  return block;
}

void Pool::release(const Block& block) noexcept {
  std::lock_guard lock(mutex_);
  if (checked_) {
    if (!guards_intact(block)) ++overruns_;
    live_.erase(block.handle);
  }
  free_[block.capacity].push_back(block.handle);
  stats_.in_use -= block.capacity;
  --stats_.live;
}

void Pool::trim() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

void Pool::trim_locked() {
  const int64_t guard = checked_ ? kGuardBytes : 0;
  for (auto& [capacity, handles] : free_) {
    for (void* handle : handles) {
      source_.give_back(handle, capacity + 2 * guard);
      stats_.reserved -= capacity + 2 * guard;
    }
    handles.clear();
  }
}

void Pool::arm(const Block& block) {
  source_.fill(block.handle, 0, kGuard, kGuardBytes);
  source_.fill(block.handle, block.offset, kPoison, block.bytes);
  // The slack of the size class guards too: one byte past the end is already caught.
  source_.fill(block.handle, block.offset + block.bytes, kGuard, block.capacity - block.bytes + kGuardBytes);
  live_[block.handle] = block;
}

bool Pool::guards_intact(const Block& block) {
  std::vector<uint8_t> bytes(kGuardBytes);
  const auto intact = [&](int64_t offset) {
    source_.read(block.handle, offset, bytes.data(), kGuardBytes);
    return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == kGuard; });
  };
  return intact(0) && intact(block.offset + block.bytes);
}

void Pool::verify() {
  std::lock_guard lock(mutex_);
  int64_t damaged = std::exchange(overruns_, 0);
  for (auto& [handle, block] : live_)
    if (!guards_intact(block)) {
      ++damaged;
      arm(block);
    }
  if (damaged) fail(ErrorCode::device_fault, "pool", damaged, " buffers were written outside their bounds");
}

PoolStats Pool::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Pool::reset_high_water() {
  std::lock_guard lock(mutex_);
  stats_.high_water = stats_.in_use;
}

}  // namespace weft
