// Weft's interface to Metal. Two implementations: Apple's framework (weft/backends/metal/apple), and the simulator that
// runs the same kernel sources on Linux (weft/backends/metal/sim). Everything above this file is the same code for both.
//
// Order: dispatches run in the order they were encoded only where a barrier() or a commit() stands between them; whoever encodes
// (launch.h) puts one wherever a dispatch touches what an earlier one writes, or writes what one reads. wait() makes everything visible to
// the host.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/device/traits.h"

namespace weft::metal {

// The value of a [[function_constant(index)]].
struct Constant {
  enum class Type : uint8_t { boolean, i32, u32, f32 };
  int index = 0;
  Type type = Type::boolean;
  uint32_t bits = 0;  // of the value; 0 or 1 for a boolean

  bool operator==(const Constant&) const = default;
};

// A compiled kernel with its constants.
class Pipeline {
 public:
  virtual ~Pipeline() = default;
  virtual int most_threads() const = 0;  // of a threadgroup; any power of two up to it may be launched
};

// Compiled source text.
class Library {
 public:
  virtual ~Library() = default;
  // Throws `unsupported` naming the kernel when the text has none of that name, or a constant is missing.
  virtual std::shared_ptr<Pipeline> pipeline(std::string_view kernel, const std::vector<Constant>& constants) = 0;
};

// The argument at [[buffer(index)]]: part of a device buffer, or up to 4 KiB copied at encoding.
struct Binding {
  int index = 0;
  void* buffer = nullptr;  // from new_buffer; null: `bytes` are copied from `copied`
  int64_t offset = 0;
  int64_t bytes = 0;  // from the offset on, that the kernel may touch
  const void* copied = nullptr;
  bool read_only = false;  // the kernel writes nothing there; a checking device verifies that
};

struct Dispatch {
  const char* op = "";  // in faults
  Pipeline* pipeline = nullptr;
  std::vector<Binding> bindings;
  std::array<int64_t, 3> groups{1, 1, 1};
  int threads = 1;                // of a group, along x
  int64_t threadgroup_bytes = 0;  // of [[threadgroup(0)]]; 0: none
};

// Counts since the last reset. Only the simulator counts; `counted` is false otherwise.
struct Counters {
  bool counted = false;
  int64_t dispatches = 0, threads = 0, barriers = 0;  // barriers: of threadgroups, once for each group
  int64_t device_read = 0, device_written = 0;        // bytes that threads access
  int64_t threadgroup_bytes = 0;                      // read and written
  int64_t matrix_multiply_adds = 0;                   // scalar multiply-adds inside simdgroup_matrix multiplications
};

class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual std::string description() const = 0;
  virtual DeviceTraits traits() const = 0;
  virtual int64_t total_memory() const = 0;
  virtual int64_t free_memory() const = 0;

  // Memory that the host sees at contents(); null if there is none left. A buffer is deleted only after wait().
  virtual void* new_buffer(int64_t bytes) = 0;
  virtual void delete_buffer(void* buffer) = 0;
  virtual char* contents(void* buffer) = 0;

  // Throws `unsupported` with the compiler's own words, file and line. `name` is what they call the text where it has no #line.
  virtual std::shared_ptr<Library> library(const std::string& text, const std::string& name) = 0;

  virtual void encode(const Dispatch& dispatch) = 0;
  virtual void barrier() = 0;
  virtual void commit() = 0;  // submits what was encoded
  virtual void wait() = 0;    // commits, then waits; throws `device_fault` naming the op and what the device said

  virtual Counters counters() = 0;
  virtual void reset_counters() = 0;
};

}  // namespace weft::metal
