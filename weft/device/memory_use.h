// Uses of memory. The pool counts each separately, so that a plan or a report shows where the bytes went.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

class Device;

enum class MemoryUse : uint8_t {
  weights,      // parameters, and master copies of them
  gradients,    // of parameters
  optimizer,    // moments and other state that lives as long as training
  activations,  // what ops return: the default
  workspace,    // a kernel's scratch, for the length of one launch
};
inline constexpr int kMemoryUses = 5;
std::string_view name(MemoryUse use);

// Until the scope ends, allocations on `device` count as `use`. Scopes nest; the innermost counts. A device has
// one user at a time, so the scope belongs to the device and not to a thread. Workspace is counted as such anyway.
class MemoryScope {
 public:
  MemoryScope(Device& device, MemoryUse use);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  Device& device_;
  const MemoryUse before_;
};

}  // namespace weft
