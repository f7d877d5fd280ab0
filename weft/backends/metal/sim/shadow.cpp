#include "weft/backends/metal/sim/shadow.h"

#include <algorithm>

#include "weft/backends/metal/sim/shim/abi.h"
#include "weft/base/check.h"

namespace weft::metal::sim {
namespace {

constexpr size_t kMostFindings = 8;
constexpr uint32_t kThreads = 1024;  // of a group, at most

uint32_t group_of(uint32_t thread) { return (thread - 1) / kThreads; }
uint32_t simdgroup_of(uint32_t thread) { return (thread - 1) / weft_sim::kLanes; }
std::string name_of(uint32_t thread) { return join("thread ", (thread - 1) % kThreads, " of group ", group_of(thread)); }

}  // namespace

void Shadow::begin_launch() {
  device_.clear();
  threadgroup_.clear();
  findings_.clear();
  known_.clear();
}

void Shadow::begin_group() { threadgroup_.clear(); }

void Shadow::add(Memory memory, const char* begin, uint64_t bytes, const std::string& name) {
  (memory == Memory::device ? device_ : threadgroup_).push_back({memory, begin, bytes, name, 4, {}, true});
}

void Shadow::add_unbound(const char* begin, const std::string& name) { device_.push_back({Memory::device, begin, 0, name, 4, {}, false}); }

Shadow::Region* Shadow::find(std::vector<Region>& regions, const char* address, uint64_t bytes) {
  for (Region& r : regions) {
    if (address >= r.begin && address + bytes <= r.begin + r.bytes) return &r;
  }
  return nullptr;
}

void Shadow::refine(Region& region, uint64_t unit) {
  if (region.cells.empty()) {
    region.unit = unit;
    region.cells.resize((region.bytes + unit - 1) / unit);
    return;
  }
  std::vector<Cell> cells((region.bytes + unit - 1) / unit);
  for (uint64_t i = 0; i < cells.size(); ++i) cells[i] = region.cells[i * unit / region.unit];
  region.unit = unit;
  region.cells = std::move(cells);
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
  const uint64_t offset = uint64_t(p - region->begin);
  const uint64_t unit = offset % 4 == 0 && bytes % 4 == 0 ? 4 : offset % 2 == 0 && bytes % 2 == 0 ? 2 : 1;
  if (region->cells.empty() || unit < region->unit) refine(*region, unit);
  const auto memory = size_t(region->memory);
  const Record now{who.group * kThreads + who.index + 1, who.epoch[memory], who.simd_epoch[memory], (access & weft_sim::kAtomic) != 0, code};
  for (uint64_t at = offset; at < offset + bytes; at += region->unit) touch(*region, region->cells[at / region->unit], now, writes, at);
  return true;
}

void Shadow::touch(const Region& region, Cell& cell, const Record& now, bool writes, uint64_t offset) {
  if (!writes && region.memory == Memory::threadgroup && cell.write.thread == 0) {
    found(1, join("read of '", region.name, "' at %1, byte ", offset, ", by ", name_of(now.thread), ": nobody has written it"), now.code);
  }
  if (cell.write.thread && !ordered(cell.write, now)) race(region, cell.write, "write", now, writes ? "write" : "read", offset);
  if (!writes) {
    keep(cell, now);
    return;
  }
  for (const Record& read : cell.read) {
    if (read.thread && !ordered(read, now)) race(region, read, "read", now, "write", offset);
  }
  const Record before = cell.write;
  cell = {now, {}};
  // A plain write of this thread that no barrier has ended yet still races with the atomics of others.
  const bool still_plain = before.thread == now.thread && before.epoch == now.epoch && !before.atomic;
  if (now.atomic && still_plain) cell.write = before;
}

bool Shadow::ordered(const Record& before, const Record& now) {
  if (before.thread == now.thread || (before.atomic && now.atomic)) return true;
  if (group_of(before.thread) != group_of(now.thread)) return false;
  if (before.epoch < now.epoch) return true;
  return simdgroup_of(before.thread) == simdgroup_of(now.thread) && before.simd_epoch < now.simd_epoch;
}

void Shadow::keep(Cell& cell, const Record& now) {
  Record &first = cell.read[0], &second = cell.read[1];
  const auto apart = [&](const Record& other) {  // how far: 0 the same thread, then simdgroup, then group
    if (other.thread == now.thread) return 0;
    if (group_of(other.thread) != group_of(now.thread)) return 3;
    return simdgroup_of(other.thread) != simdgroup_of(now.thread) ? 2 : 1;
  };
  // One that no later write can race with has nothing more to say.
  const auto replaceable = [&](const Record& other) { return !other.thread || apart(other) == 0 || (apart(other) < 3 && other.epoch < now.epoch) ||
                                                                   (apart(other) == 1 && other.simd_epoch < now.simd_epoch); };
  if (replaceable(first)) {
    first = now;
  } else if (replaceable(second)) {
    second = now;
  } else {
    // Keep the pair that is furthest apart; among equals the later one.
    const Record old = second;
    const int before = group_of(first.thread) != group_of(old.thread) ? 3 : simdgroup_of(first.thread) != simdgroup_of(old.thread) ? 2 : 1;
    if (apart(first) >= before) second = now;
    else if (apart(old) >= before) first = now;
  }
}

void Shadow::race(const Region& region, const Record& before, const char* did, const Record& now, const char* does, uint64_t offset) {
  const bool one_group = group_of(before.thread) == group_of(now.thread);
  const char* why = !one_group                            ? "nothing orders two groups"
                    : region.memory == Memory::device     ? "no barrier for device memory stands between them"
                                                          : "no barrier for threadgroup memory stands between them";
  found(2,
        join("race on '", region.name, "', byte ", offset, ": ", did, " at %1 by ", name_of(before.thread), ", ", does, " at %2 by ", name_of(now.thread), "; ", why),
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
  found(3, join(writes ? "write" : "read", " of ", bytes, " bytes at %1 ", where, ", by thread ", who.index, " of group ", who.group), code);
}

void Shadow::found(int kind, const std::string& what, const void* first, const void* second) {
  if (findings_.size() >= kMostFindings || !known_.emplace(kind, first, second).second) return;
  findings_.push_back({what, {first, second}});
}

}  // namespace weft::metal::sim
