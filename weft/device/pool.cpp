#include "weft/device/pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "weft/base/check.h"
#include "weft/device/coarse_workspace.h"

namespace weft {

namespace {

// Size classes: multiples of 256 bytes up to 4 KiB, then four per power of two (at most a fifth is slack), from 2 MiB
// on sixteen (at most a seventeenth).
struct SizeClass {
  size_t index;
  int64_t capacity;
};

constexpr int64_t kStep = 256;
constexpr int kFineBits = 12, kLargeBits = 21, kMostBits = 60;
constexpr int kFineClasses = (1 << kFineBits) / kStep;
constexpr int kMiddleClasses = (kLargeBits - kFineBits) * 4;
constexpr size_t kClasses = size_t(kFineClasses + kMiddleClasses + (kMostBits - kLargeBits) * 16);

// Of the octave (2^bits, 2^(bits + 1)], cut into 2^parts_bits equal steps.
constexpr SizeClass octave_class(int64_t bytes, int bits, int parts_bits, int first_index, int first_bits) {
  const int64_t step = int64_t(1) << (bits - parts_bits), steps = (bytes - (int64_t(1) << bits) + step - 1) / step;
  return {size_t(first_index + ((bits - first_bits) << parts_bits)) + size_t(steps) - 1, (int64_t(1) << bits) + steps * step};
}

constexpr SizeClass size_class(int64_t bytes) {
  if (bytes <= int64_t(1) << kFineBits) {
    const int64_t steps = std::max<int64_t>(1, (bytes + kStep - 1) / kStep);
    return {size_t(steps) - 1, steps * kStep};
  }
  const int bits = std::bit_width(uint64_t(bytes - 1)) - 1;
  if (bits < kLargeBits) return octave_class(bytes, bits, 2, kFineClasses, kFineBits);
  return octave_class(bytes, bits, 4, kFineClasses + kMiddleClasses, kLargeBits);
}

// The inverse of size_class.
constexpr int64_t capacity_of(size_t index) {
  if (index < kFineClasses) return int64_t(index + 1) * kStep;
  const bool middle = index < kFineClasses + kMiddleClasses;
  const int parts_bits = middle ? 2 : 4;
  const size_t at = index - size_t(middle ? kFineClasses : kFineClasses + kMiddleClasses);
  const int bits = (middle ? kFineBits : kLargeBits) + int(at >> parts_bits);
  const int64_t steps = int64_t(at & ((size_t(1) << parts_bits) - 1)) + 1;
  return (int64_t(1) << bits) + (steps << (bits - parts_bits));
}

constexpr bool classes_agree() {
  for (size_t index = 0; index < kClasses; ++index) {
    const int64_t capacity = capacity_of(index);
    if (size_class(capacity).index != index || size_class(capacity).capacity != capacity) return false;
    if (index + 1 < kClasses &&
        (size_class(capacity + 1).index != index + 1 || capacity_of(index + 1) != size_class(capacity + 1).capacity))
      return false;
  }
  return true;
}
static_assert(classes_agree());
static_assert(size_class(0).capacity == 256 && size_class(4097).capacity == 5120);
static_assert(size_class((1 << 21) + 1).capacity == (1 << 21) + (1 << 17));
static_assert(size_class(int64_t(1) << kMostBits).index + 1 == kClasses);

thread_local int coarse_workspaces = 0;

}  // namespace

std::string_view name(MemoryUse use) {
  constexpr std::string_view kNames[kMemoryUses] = {"weights", "gradients", "optimizer", "activations", "workspace"};
  return kNames[size_t(use)];
}

CoarseWorkspace::CoarseWorkspace() { ++coarse_workspaces; }
CoarseWorkspace::~CoarseWorkspace() { --coarse_workspaces; }

Pool::Pool(MemorySource& source, bool checked, int64_t limit) : source_(source), checked_(checked), limit_(limit), free_(kClasses) {}

Pool::~Pool() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

Block Pool::allocate(int64_t bytes, MemoryUse use) {
  check(bytes >= 0 && bytes < (int64_t(1) << kMostBits), "allocate", "cannot allocate ", bytes, " bytes");
  const bool coarse = use == MemoryUse::workspace && coarse_workspaces > 0;
  const SizeClass size = size_class(coarse ? int64_t(std::bit_ceil(uint64_t(bytes))) : bytes);
  std::lock_guard lock(mutex_);
  std::vector<void*>& cached = cached_locked(size.index);
  Block block{nullptr, checked_ ? kGuardBytes : 0, bytes, size.capacity, use};
  if (cached.empty()) {
    block.handle = obtain_locked(bytes, total(size.capacity));
  } else {
    block.handle = cached.back();
    cached.pop_back();
  }
  if (reservation_) reserved_[block.handle] = reservation_;
  source_.touch(block.handle, total(size.capacity), checked_ ? total(size.capacity) : bytes);
  measure_locked();
  if (checked_) arm(block);
  count_locked(block);
  return block;
}

// The free list that has a block of this size class, the open reservation first.
std::vector<void*>& Pool::cached_locked(size_t size_class) {
  if (reservation_)
    if (auto found = reserved_free_.find({reservation_, size_class}); found != reserved_free_.end() && !found->second.empty())
      return found->second;
  return free_[size_class];
}

// The free list that a released block goes to.
std::vector<void*>& Pool::home_locked(const Block& block) {
  const size_t index = size_class(block.capacity).index;
  if (reservation_) reserved_.try_emplace(block.handle, reservation_);  // a block from before the capture, which the graph reads
  const auto found = reserved_.empty() ? reserved_.end() : reserved_.find(block.handle);
  return found == reserved_.end() ? free_[index] : reserved_free_[{found->second, index}];
}

void* Pool::obtain_locked(int64_t bytes, int64_t total) {
  const auto attempt = [&] { return limit_ > 0 && stats_.reserved + total > limit_ ? nullptr : source_.obtain(total); };
  void* handle = attempt();
  if (!handle && !reservation_) {  // cached blocks of other sizes may take the room
    trim_locked();
    handle = attempt();
  }
  if (!handle) refuse_locked(bytes);
  stats_.reserved += total;
  return handle;
}

void Pool::refuse_locked(int64_t bytes) {
  MemorySource::Room room = source_.room();
  if (limit_ > 0) {
    const int64_t left = std::max<int64_t>(0, limit_ - stats_.reserved);
    if (room.free < 0 || left <= room.free) room.limit = {};  // the pool's own is lower
    room.free = room.free < 0 ? left : std::min(room.free, left);
    room.largest = room.largest < 0 ? left : std::min(room.largest, left);
  }
  const auto known = [](int64_t value) { return value < 0 ? std::string("an unknown number of") : std::to_string(value); };
  const int64_t largest = room.largest < 0 ? -1 : std::max<int64_t>(0, room.largest - total(0));
  fail(ErrorCode::out_of_memory, "allocate", bytes, " bytes asked for, ", known(room.free), " bytes free",
       room.limit.empty() ? "" : join(" within ", room.limit), ", largest block left ", known(largest), " bytes; ", stats_.in_use,
       " bytes are in use by ", stats_.live, " buffers", limit_ > 0 ? join(", the limit is ", limit_, " bytes") : "");
}

int64_t Pool::begin_reservation() {
  std::lock_guard lock(mutex_);
  check(reservation_ == 0, "pool", "memory is being reserved already");
  return reservation_ = ++reservations_;
}

void Pool::end_reservation() {
  std::lock_guard lock(mutex_);
  reservation_ = 0;
}

void Pool::unreserve(int64_t reservation) {
  std::lock_guard lock(mutex_);
  std::erase_if(reserved_, [&](const auto& entry) { return entry.second == reservation; });
  std::erase_if(reserved_free_, [&](const auto& entry) {
    if (entry.first.first != reservation) return false;
    std::vector<void*>& free = free_[entry.first.second];
    free.insert(free.end(), entry.second.begin(), entry.second.end());
    return true;
  });
}

void Pool::count_locked(const Block& block) {
  UseStats& use = stats_.uses[size_t(block.use)];
  use.in_use += block.capacity;
  use.high_water = std::max(use.high_water, use.in_use);
  stats_.in_use += block.capacity;
  ++stats_.live;
  if (stats_.in_use <= stats_.high_water) return;
  stats_.high_water = stats_.in_use;
  for (UseStats& each : stats_.uses) each.at_peak = each.in_use;
}

void Pool::measure_locked() {
  const int64_t held = source_.held();
  stats_.held = held < 0 ? stats_.reserved : held;
  stats_.held_high_water = std::max(stats_.held_high_water, stats_.held);
}

void Pool::release(const Block& block) noexcept {
  std::lock_guard lock(mutex_);
  if (checked_ && live_.erase(block.handle) && !reservation_ && !guards_intact(block)) ++overruns_;
  home_locked(block).push_back(block.handle);
  stats_.uses[size_t(block.use)].in_use -= block.capacity;
  stats_.in_use -= block.capacity;
  --stats_.live;
}

void Pool::recount(Block& block, MemoryUse use) {
  std::lock_guard lock(mutex_);
  stats_.uses[size_t(block.use)].in_use -= block.capacity;
  block.use = use;
  UseStats& now = stats_.uses[size_t(use)];
  now.in_use += block.capacity;
  now.high_water = std::max(now.high_water, now.in_use);
}

void Pool::trim() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

void Pool::trim_locked() {
  for (size_t index = 0; index < kClasses; ++index) {
    const int64_t bytes = total(capacity_of(index));
    for (void* handle : free_[index]) {
      source_.give_back(handle, bytes);
      stats_.reserved -= bytes;
    }
    free_[index].clear();
  }
  measure_locked();
}

void Pool::arm(const Block& block) {
  source_.fill(block.handle, 0, kGuard, kGuardBytes);
  source_.fill(block.handle, block.offset, kPoison, block.bytes);
  // The slack of the size class guards too: one byte past the end is already caught.
  source_.fill(block.handle, block.offset + block.bytes, kGuard, block.capacity - block.bytes + kGuardBytes);
  if (!reservation_) live_[block.handle] = block;  // a captured block is armed when it is replayed
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
  stats_.held_high_water = stats_.held;
  for (UseStats& use : stats_.uses) use.high_water = use.at_peak = use.in_use;
}

}  // namespace weft
