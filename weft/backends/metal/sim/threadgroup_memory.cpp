// Memory of a group: its threadgroup variables, and the checks of every access of an instrumented kernel.
#include <algorithm>
#include <cstring>

#include "weft/backends/metal/sim/threadgroup.h"
#include "weft/backends/metal/sim/runtime.h"
#include "weft/base/check.h"

namespace weft::metal::sim {

// Variables are spaced far apart in checked mode, so that an access outside of one does not hit another.
uint64_t Threadgroup::gap() const {
  if (!launch_->shadow) return kRedZone;
  const uint64_t variables = variables_.size() + 2;
  return std::min<uint64_t>(1 << 20, (arena_.bytes() - 4 * uint64_t(kMostThreadgroupBytes)) / variables) / 64 * 64;
}

char* Threadgroup::allocate(uint64_t bytes, uint64_t alignment, const char* name) {
  threadgroup_used_ += (bytes + 15) / 16 * 16;
  const uint64_t at = (arena_used_ + alignment - 1) / alignment * alignment;
  if (threadgroup_used_ > uint64_t(kMostThreadgroupBytes) || at + bytes + gap() > arena_.bytes()) return nullptr;
  arena_used_ = at + bytes + gap();
  char* pointer = arena_.begin() + at;
  std::memset(pointer, 0xff, bytes);  // NaN
  if (launch_->shadow) launch_->shadow->add_variable(pointer, bytes, name);
  return pointer;
}

void* Threadgroup::threadgroup_variable(int index, const char* name, uint64_t bytes, uint64_t alignment, weft_sim::Site site) {
  Variable& variable = variables_[size_t(index)];
  if (variable.pointer) return variable.pointer;
  char* pointer = allocate(bytes, alignment, name);
  if (!pointer)
    fail_at(join("threadgroup variable '", name, "' of ", bytes, " bytes makes ", threadgroup_used_, " bytes in all, the limit is ",
                 kMostThreadgroupBytes),
            site);
  variable = {pointer, bytes, name};
  return pointer;
}

void Threadgroup::access(const void* address, uint64_t bytes, int access, const void* code) {
  const auto* p = static_cast<const char*>(address);
  if (is_private(p)) return;
  const bool writes = access & weft_sim::kWrite;
  if (launch_->counting) count(p, bytes, writes);
  if (!launch_->shadow || launch_->shadow->access(current_->toucher, p, bytes, access, code)) return;
  launch_->stopped = true;
  abandon();
}

// Memory that is not checked: the thread's own stack; all stacks while a simdgroup function combines its lanes; what the simulator passes
// to kernels; and the constants of the text.
bool Threadgroup::is_private(const char* p) const {
  const auto within = [p](const void* begin, uint64_t bytes) { return p >= begin && p < static_cast<const char*>(begin) + bytes; };
  return within(stacks_.low(current_->stack), Stacks::kBytes) ||
         (combining_ && within(stacks_.low(0), Stacks::kBytes * uint64_t(stacks_.count()))) ||
         within(threads_.data(), threads_.size() * sizeof(SimThread)) || within(this, sizeof *this) || within(launch_, sizeof *launch_) ||
         within(&runtime(), sizeof runtime()) || launch_->module->contains(p);
}

void Threadgroup::count(const char* p, uint64_t bytes, bool writes) {
  if (p >= arena_.begin() && p < arena_.begin() + arena_.bytes()) {
    counters_.threadgroup_bytes += int64_t(bytes);
    return;
  }
  const weft_sim::Bindings& bound = launch_->bindings;
  for (int i = 0; i < weft_sim::kMostBuffers; ++i) {
    const auto* begin = static_cast<const char*>(bound.pointer[i]);
    if (!begin || p < begin || p >= begin + bound.bytes[i]) continue;
    if (!(launch_->copied_bindings >> i & 1)) (writes ? counters_.device_written : counters_.device_read) += int64_t(bytes);
    return;
  }
}

}  // namespace weft::metal::sim
