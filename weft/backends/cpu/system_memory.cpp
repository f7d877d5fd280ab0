#include "weft/backends/cpu/system_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace weft::cpu {
namespace {

constexpr int64_t kShared = int64_t(32) << 20;  // a mapping that blocks share, and its alignment

bool in_one_mapping(const char* a, const char* b) { return uintptr_t(a) / uintptr_t(kShared) == uintptr_t(b) / uintptr_t(kShared); }

// Maps `alignment` bytes more than asked for and gives back what lies before the first multiple of it and after the end. The
// pool's sizes from 2 MiB on are multiples of any page, but for the guards of a checked pool.
char* map(int64_t bytes, int64_t alignment) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), length = (size_t(bytes) + page - 1) / page * page, slack = size_t(alignment);
  void* mapped = mmap(nullptr, length + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const from = static_cast<char*>(mapped);
  const size_t before = (slack - reinterpret_cast<uintptr_t>(from) % slack) % slack;
  if (before) munmap(from, before);
  if (before < slack) munmap(from + before + length, slack - before);
#ifdef MADV_HUGEPAGE
  madvise(from + before, length, MADV_HUGEPAGE);
#endif
  return from + before;
}

}  // namespace

void* SystemMemory::obtain(int64_t bytes) {
  if (bytes >= kHugePage) return map(bytes, kHugePage);
  return shared(bytes) ? take_part(bytes) : std::aligned_alloc(Pool::kGuardBytes, size_t(bytes));
}

void SystemMemory::give_back(void* handle, int64_t bytes) {
  if (bytes >= kHugePage)
    munmap(handle, size_t(bytes));
  else
    shared(bytes) ? return_part(static_cast<char*>(handle), bytes) : std::free(handle);
}

// The first stretch that is long enough.
void* SystemMemory::take_part(int64_t bytes) {
  auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& stretch) { return stretch.second >= bytes; });
  if (found == free_.end()) {
    char* const fresh = map(kShared, kShared);
    if (!fresh) return nullptr;
    found = free_.emplace(fresh, kShared).first;
  }
  const auto [at, room] = *found;
  free_.erase(found);
  if (room > bytes) free_.emplace(at + bytes, room - bytes);
  return at;
}

// Joined with its free neighbours; a mapping that is free as a whole goes back to the system.
void SystemMemory::return_part(char* at, int64_t bytes) {
  auto next = free_.upper_bound(at);
  if (next != free_.end() && next->first == at + bytes && in_one_mapping(at, next->first)) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == at && in_one_mapping(at, before->first)) {
      at = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  if (bytes == kShared)
    munmap(at, size_t(kShared));
  else
    free_.emplace(at, bytes);
}

MemorySource::Room SystemMemory::room() {
  const int64_t free = sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return {free, free};  // addresses are one range, whatever pages lie behind them
}

void SystemMemory::fill(void* handle, int64_t offset, uint8_t value, int64_t bytes) {
  std::memset(static_cast<char*>(handle) + offset, value, size_t(bytes));
}

void SystemMemory::read(void* handle, int64_t offset, void* host, int64_t bytes) {
  std::memcpy(host, static_cast<char*>(handle) + offset, size_t(bytes));
}

}  // namespace weft::cpu
