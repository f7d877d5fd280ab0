#include "weft/backends/cpu/system_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "weft/backends/cpu/host_memory.h"

namespace weft::cpu {
namespace {

constexpr int64_t kShared = int64_t(32) << 20;  // size and alignment of a mapping shared by blocks

bool in_one_mapping(const char* a, const char* b) { return uintptr_t(a) / uintptr_t(kShared) == uintptr_t(b) / uintptr_t(kShared); }

int64_t round_up(int64_t bytes, int64_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }
int64_t small_page() {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  return page;
}

// Whether memory advised as huge pages may get them.
bool huge_pages_offered() {
#ifdef MADV_HUGEPAGE
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
  return !setting.empty() && setting.find("[never]") == setting.npos;
#else
  return false;
#endif
}

// Memory behind a mapping of `length` bytes whose first `used` were written: whole huge pages, small pages after the last whole one.
int64_t pages_behind(int64_t length, int64_t used) {
  static const bool huge = huge_pages_offered();
  const int64_t page = huge && used <= length / SystemMemory::kHugePage * SystemMemory::kHugePage ? SystemMemory::kHugePage : small_page();
  return round_up(used, page);
}

}  // namespace

// Maps `alignment` bytes more than requested and unmaps what lies before the first multiple of it and after the end. The pool's sizes from
// 2 MiB on are multiples of any page, except for the guards of a checked pool.
char* SystemMemory::map(int64_t bytes, int64_t alignment) const {
  const size_t length = size_t(round_up(bytes, small_page())), slack = size_t(alignment);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
  if (planned_) flags |= MAP_NORESERVE;
#endif
  void* mapped = mmap(nullptr, length + slack, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const from = static_cast<char*>(mapped);
  const size_t before = (slack - reinterpret_cast<uintptr_t>(from) % slack) % slack;
  if (before) munmap(from, before);
  if (before < slack) munmap(from + before + length, slack - before);
#ifdef MADV_HUGEPAGE
  if (!planned_) madvise(from + before, length, MADV_HUGEPAGE);
#endif
  return from + before;
}

void* SystemMemory::obtain(int64_t bytes) {
  if (bytes >= kHugePage) return map(bytes, kHugePage);
  if (shared(bytes)) return take_part(bytes);
  void* const small = std::aligned_alloc(Pool::kGuardBytes, size_t(bytes));
  if (small && planned_) std::memset(small, 0, size_t(bytes));  // like a fresh mapping: memory that was never computed reads as zeros
  if (small) held_ += bytes;
  return small;
}

void SystemMemory::give_back(void* handle, int64_t bytes) {
  if (bytes >= kHugePage) {
    munmap(handle, size_t(bytes));
    if (const auto found = touched_.find(handle); found != touched_.end()) {
      held_ -= found->second;
      touched_.erase(found);
    }
  } else if (shared(bytes)) {
    remove_user(static_cast<char*>(handle), bytes);
    return_part(static_cast<char*>(handle), bytes);
  } else {
    std::free(handle);
    held_ -= bytes;
  }
}

void SystemMemory::touch(void* handle, int64_t bytes, int64_t used) {
  if (bytes < kHugePage) return;  // counted at allocation
  int64_t& touched = touched_[handle];
  const int64_t now = std::max(touched, pages_behind(bytes, used));
  held_ += now - touched;
  touched = now;
}

// The huge pages that overlap a part of a shared mapping.
void SystemMemory::add_user(char* at, int64_t bytes) {
  for (char* page = at - uintptr_t(at) % uintptr_t(kHugePage); page < at + bytes; page += kHugePage)
    if (users_[page]++ == 0) held_ += kHugePage;
}

void SystemMemory::remove_user(char* at, int64_t bytes) {
  for (char* page = at - uintptr_t(at) % uintptr_t(kHugePage); page < at + bytes; page += kHugePage) {
    const auto found = users_.find(page);
    if (--found->second > 0) continue;
    users_.erase(found);
    held_ -= kHugePage;
    madvise(page, size_t(kHugePage), MADV_DONTNEED);
  }
}

// First fit.
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
  add_user(at, bytes);
  return at;
}

// Merges a block with its free neighbours; a mapping that is entirely free is unmapped.
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
  const HostMemory host = host_memory();
  return {host.available, host.available, host.limit};  // virtual addresses do not fragment
}

void SystemMemory::fill(void* handle, int64_t offset, uint8_t value, int64_t bytes) {
  std::memset(static_cast<char*>(handle) + offset, value, size_t(bytes));
}

void SystemMemory::read(void* handle, int64_t offset, void* host, int64_t bytes) {
  std::memcpy(host, static_cast<char*>(handle) + offset, size_t(bytes));
}

}  // namespace weft::cpu
