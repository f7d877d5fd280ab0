// Launches a kernel of an op's .metal file: the file, the kernel, the argument at each buffer index.
//
//   const RopeParams p{...};                                        // weft/ops/rope/params.h, the same struct in MSL
//   launch(stream, {a.kOp, "weft/ops/rope/metal.metal", "turn_bf16", {constant(0, bool(a.start))}},
//          {.groups = {groups, 1, 1}, .threads = 256}, {in(a.x), out(a.y), in(a.cos), in(a.start), params(p), fault(stream)});
//
// Arguments take [[buffer(0)]], [[buffer(1)]], ... in turn. Hazards: a dispatch that reads or writes what an earlier one since
// the last barrier wrote, or writes what one read, gets a barrier before it; that is decided here from in() and out().
#pragma once

#include <array>
#include <bit>
#include <initializer_list>
#include <type_traits>

#include "weft/device/device.h"
#include "weft/tensor/view.h"
#include "weft/tile/metal/seam.h"

namespace weft::metal {

inline Constant constant(int index, bool value) { return {index, Constant::Type::boolean, value}; }
inline Constant constant(int index, int32_t value) { return {index, Constant::Type::i32, uint32_t(value)}; }
inline Constant constant(int index, uint32_t value) { return {index, Constant::Type::u32, value}; }
inline Constant constant(int index, float value) { return {index, Constant::Type::f32, std::bit_cast<uint32_t>(value)}; }

struct Kernel {
  const char* op;    // in errors
  const char* file;  // in the tree: "weft/ops/rope/metal.metal"
  std::string name;
  std::vector<Constant> constants;
};

struct Grid {
  std::array<int64_t, 3> groups{1, 1, 1};
  int threads = 256;
  int64_t threadgroup_bytes = 0;
};

struct Argument {
  void* buffer = nullptr;
  int64_t offset = 0, bytes = 0;
  const void* copied = nullptr;
  bool written = false;
};

// Binds the memory from the view's first element to its last; an absent view binds nothing.
Argument in(const View& view);
Argument out(const MutView& view);  // written, and perhaps read
Argument in(const Buffer& buffer);
Argument out(const Buffer& buffer);
inline Argument nothing() { return {}; }

template <class Params>
Argument params(const Params& p) {
  static_assert(std::is_trivially_copyable_v<Params> && sizeof(Params) <= 4096);
  return {nullptr, 0, int64_t(sizeof(Params)), &p, false};
}

// The word in which a kernel reports a fault in its data (fault.metal.h). Raised at the next synchronize.
Argument fault(Stream& stream);

// Arguments in order, for a launch.
class Arguments {
 public:
  Arguments(std::initializer_list<Argument> list) { add(list); }
  void add(std::initializer_list<Argument> more) {
    for (const Argument& argument : more) list_.at(count_++) = argument;
  }
  const Argument* begin() const { return list_.data(); }
  const Argument* end() const { return begin() + count_; }

 private:
  static constexpr size_t kMost = 31;  // Metal's argument table for buffers
  std::array<Argument, kMost> list_;
  size_t count_ = 0;
};

// An op's operands in the order of their declaration (weft/ops/operands.h), then `more`.
template <class Args>
Arguments bind(const Args& args, std::initializer_list<Argument> more = {}) {
  Arguments arguments{};
  for (const auto& operand : Args::operands()) arguments.add({operand.output ? out(args.*operand.output) : in(args.*operand.input)});
  arguments.add(more);
  return arguments;
}

// Launches nothing if there are no groups. Throws if the kernel cannot have that many threads.
void launch(Stream& stream, const Kernel& kernel, const Grid& grid, const Arguments& arguments);

// The largest power of two that this pipeline can have in a threadgroup, at most `wanted`.
int threads_of(Stream& stream, const Kernel& kernel, int wanted);

// As launch(), for a text made at run time; `serial` identifies the text.
void launch_text(Stream& stream, const char* op, uint64_t serial, const std::string& text, const char* kernel, const Grid& grid,
                 const std::vector<Argument>& arguments);

// Workspace from the pool; the next user of the memory runs after the kernels of this launch.
std::shared_ptr<Buffer> scratch(Stream& stream, int64_t bytes);

}  // namespace weft::metal
