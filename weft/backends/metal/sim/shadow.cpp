#include "weft/backends/metal/sim/shadow.h"

#include <algorithm>

#include "weft/backends/metal/sim/shim/abi.h"
#include "weft/base/check.h"

namespace weft::metal::sim {
namespace {

constexpr size_t kMostFindings = 8;
constexpr uint32_t kThreads = 1024;  // per group, at most

uint32_t group_of(uint32_t thread) { return (thread - 1) / kThreads; }
uint32_t simdgroup_of(uint32_t thread) { return (thread - 1) / weft_sim::kLanes; }
std::string name_of(uint32_t thread) { return join("thread ", (thread - 1) % kThreads, " of group ", group_of(thread)); }

}  // namespace

class Shadow::Block {
 public:
  Block(const char* host, uint64_t bytes) : host_(host), bytes_(bytes) {}

  // The cells of these bytes; the range ends at the end of a cell or of the memory.
  template <class F>
  void each(uint64_t offset, uint64_t bytes, F f) {
    const uint64_t unit = offset % 4 == 0 && bytes % 4 == 0 ? 4 : offset % 2 == 0 && bytes % 2 == 0 ? 2 : 1;
    if (cells_.empty() || unit < unit_) refine(unit);
    for (uint64_t at = offset; at < offset + bytes; at += unit_) f(cells_[at / unit_], at);
  }

  const char* host() const { return host_; }
  void add_touched(std::vector<Touched>& all) const;

 private:
  void refine(uint64_t unit) {
    std::vector<Cell> cells((bytes_ + unit - 1) / unit);
    if (!cells_.empty()) {
      for (uint64_t i = 0; i < cells.size(); ++i) cells[i] = cells_[i * unit / unit_];
    }
    unit_ = unit;
    cells_ = std::move(cells);
  }

  const char* host_;
  uint64_t bytes_;
  uint64_t unit_ = 4;        // bytes per cell: the smallest access so far
  std::vector<Cell> cells_;  // allocated at the first access
};

// A written cell omits its earlier reads: whatever conflicts with them also conflicts with the write.
void Shadow::Block::add_touched(std::vector<Touched>& all) const {
  for (uint64_t i = 0; i < cells_.size(); ++i) {
    const Cell& cell = cells_[i];
    const bool written = cell.write.thread != 0;
    if (!written && !cell.read[0].thread) continue;
    const char* begin = host_ + i * unit_;
    const Touched now{begin, begin + unit_, written, written ? cell.write.code : cell.read[0].code};
    if (!all.empty() && all.back().end == begin && all.back().written == written && all.back().code == now.code)
      all.back().end = now.end;
    else
      all.push_back(now);
  }
}

void Shadow::begin_launch() {
  shared_.clear();
  device_.clear();
  threadgroup_.clear();
  findings_.clear();
  known_.clear();
}

void Shadow::begin_group() { threadgroup_.clear(); }

std::shared_ptr<Shadow::Block> Shadow::add_block(const char* host, uint64_t bytes) {
  auto block = std::make_shared<Block>(host, bytes);
  if (host) shared_.push_back(block);
  return block;
}

void Shadow::add(const Binding& binding) { device_.push_back({binding, Memory::device}); }

void Shadow::add_variable(const char* begin, uint64_t bytes, const std::string& name) {
  threadgroup_.push_back({{begin, bytes, name, add_block(nullptr, bytes), 0, false}, Memory::threadgroup});
}

void Shadow::add_unbound(const char* begin, const std::string& name) {
  device_.push_back({{begin, 0, name, nullptr, 0, false}, Memory::device, false});
}

std::vector<Touched> Shadow::touched() const {
  std::vector<std::shared_ptr<Block>> blocks = shared_;
  std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return a->host() < b->host(); });
  std::vector<Touched> all;
  for (const auto& block : blocks) block->add_touched(all);
  return all;
}

Shadow::Region* Shadow::find(std::vector<Region>& regions, const char* address, uint64_t bytes) {
  for (Region& r : regions) {
    if (address >= r.begin && address + bytes <= r.begin + r.bytes) return &r;
  }
  return nullptr;
}

bool Shadow::access(const Toucher& who, const void* address, uint64_t bytes, int access, const void* code) {
  const auto* p = static_cast<const char*>(address);
  const bool writes = access & weft_sim::kWrite;
  Region* region = find(threadgroup_, p, bytes);
  if (!region) region = find(device_, p, bytes);
  if (!region) {
    outside(who, p, bytes, writes, code);
    return false;
  }
  if (writes && region->read_only) found(4, join("write at %1 to '", region->name, "', which is bound as read-only"), code);
  const auto memory = size_t(region->memory);
  const Record now{who.group * kThreads + who.index + 1, who.epoch[memory], who.simd_epoch[memory], (access & weft_sim::kAtomic) != 0,
                   code};
  region->block->each(region->offset + uint64_t(p - region->begin), bytes,
                      [&](Cell& cell, uint64_t at) { touch(*region, cell, now, writes, at - region->offset); });
  return true;
}

void Shadow::touch(const Region& region, Cell& cell, const Record& now, bool writes, uint64_t offset) {
  if (!writes && region.memory == Memory::threadgroup && cell.write.thread == 0) {
    found(1, join("read of '", region.name, "' at %1, byte ", offset, ", by ", name_of(now.thread), ": it was never written"), now.code);
  }
  if (cell.write.thread && !ordered(cell.write, now)) race(region, cell.write, "write", now, writes ? "write" : "read", offset);
  if (!writes) {
    keep(cell, now);
    return;
  }
  for (const Record& read : cell.read) {
    if (read.thread && !ordered(read, now)) race(region, read, "read", now, "write", offset);
  }
  const Cell before = cell;
  cell = {now, {}};
  if (!now.atomic) return;
  // Non-atomic accesses still race with atomics of others: a write of this thread not yet ordered by a barrier, and reads.
  if (before.write.thread == now.thread && before.write.epoch == now.epoch && !before.write.atomic) cell.write = before.write;
  for (const Record& read : before.read) {
    if (read.thread && !read.atomic) keep(cell, read);
  }
}

bool Shadow::ordered(const Record& before, const Record& now) {
  if (before.thread == now.thread || (before.atomic && now.atomic)) return true;
  if (group_of(before.thread) != group_of(now.thread)) return false;
  if (before.epoch < now.epoch) return true;
  return simdgroup_of(before.thread) == simdgroup_of(now.thread) && before.simd_epoch < now.simd_epoch;
}

void Shadow::keep(Cell& cell, const Record& now) {
  Record &first = cell.read[0], &second = cell.read[1];
  const auto apart = [&](const Record& other) {  // distance: 0 the same thread, then simdgroup, then group
    if (other.thread == now.thread) return 0;
    if (group_of(other.thread) != group_of(now.thread)) return 3;
    return simdgroup_of(other.thread) != simdgroup_of(now.thread) ? 2 : 1;
  };
  // Drops a read that no later write can race with. A plain read races with more than an atomic one does.
  const auto replaceable = [&](const Record& other) {
    if (!other.thread || (apart(other) < 3 && other.epoch < now.epoch)) return true;
    if (other.atomic != now.atomic) return other.atomic;
    return apart(other) == 0 || (apart(other) == 1 && other.simd_epoch < now.simd_epoch);
  };
  if (replaceable(first)) {
    first = now;
  } else if (replaceable(second)) {
    second = now;
  } else if (first.atomic == now.atomic && second.atomic == now.atomic) {
    // Keeps the pair that is furthest apart; among equals the later one.
    const Record old = second;
    const int before = group_of(first.thread) != group_of(old.thread) ? 3 : simdgroup_of(first.thread) != simdgroup_of(old.thread) ? 2 : 1;
    if (apart(first) >= before)
      second = now;
    else if (apart(old) >= before)
      first = now;
  }
}

void Shadow::race(const Region& region, const Record& before, const char* did, const Record& now, const char* does, uint64_t offset) {
  const bool one_group = group_of(before.thread) == group_of(now.thread);
  const char* why = !one_group                        ? "nothing orders two groups"
                    : region.memory == Memory::device ? "no barrier for device memory stands between them"
                                                      : "no barrier for threadgroup memory stands between them";
  found(2,
        join("race on '", region.name, "', byte ", offset, ": ", did, " at %1 by ", name_of(before.thread), ", ", does, " at %2 by ",
             name_of(now.thread), "; ", why),
        before.code, now.code);
}

void Shadow::outside(const Toucher& who, const char* address, uint64_t bytes, bool writes, const void* code) {
  const Region* nearest = nullptr;
  const auto distance = [&](const Region& r) { return address < r.begin ? r.begin - address : address - (r.begin + r.bytes) + 1; };
  for (const auto* regions : {&threadgroup_, &device_}) {
    for (const Region& r : *regions) {
      if (!nearest || distance(r) < distance(*nearest)) nearest = &r;
    }
  }
  std::string where = "outside of everything bound";
  if (nearest && distance(*nearest) < (128 << 20)) {
    where = !nearest->bound ? join("of '", nearest->name, "', which is not bound")
                            : join("at byte ", address - nearest->begin, " of '", nearest->name, "', which has ", nearest->bytes, " bytes");
  }
  found(3, join(writes ? "write" : "read", " of ", bytes, " bytes at %1 ", where, ", by thread ", who.index, " of group ", who.group),
        code);
}

void Shadow::found(int kind, const std::string& what, const void* first, const void* second) {
  if (findings_.size() >= kMostFindings || !known_.emplace(kind, first, second).second) return;
  findings_.push_back({what, {first, second}});
}

}  // namespace weft::metal::sim
