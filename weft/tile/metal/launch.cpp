#include "weft/tile/metal/launch.h"

#include <bit>

#include "weft/base/check.h"
#include "weft/tile/metal/runtime.h"

namespace weft::metal {
namespace {

// Bytes from the first element to the end of the last.
int64_t extent_of(const View& view) {
  if (view.numel() == 0) return 0;
  int64_t last = 0;
  for (int axis = 0; axis < view.rank(); ++axis) last += (view.shape[axis] - 1) * view.strides[axis];
  return (last + 1) * size_of(view.dtype);
}

Argument argument(const View& view, bool written) {
  if (!view) return {};
  return {view.buffer->handle(), view.buffer->offset() + view.offset, extent_of(view), nullptr, written};
}

template <class List>
void encode(Stream& stream, const char* op, const std::string& name, Pipeline& pipeline, const Grid& grid, const List& arguments) {
  if (grid.groups[0] == 0 || grid.groups[1] == 0 || grid.groups[2] == 0) return;
  if (grid.threads > pipeline.most_threads())
    fail(ErrorCode::unsupported, op, "kernel ", name, " can have ", pipeline.most_threads(), " threads in a threadgroup here, it needs ",
         grid.threads);
  for (const int64_t groups : grid.groups)
    check(groups >= 0 && groups <= int64_t(UINT32_MAX), op, "kernel ", name, " cannot be launched over ", groups,
          " threadgroups along one axis");
  Dispatch dispatch{op, &pipeline, {}, grid.groups, grid.threads, grid.threadgroup_bytes};
  int index = 0;
  for (const Argument& a : arguments) {
    if (a.buffer || a.copied) dispatch.bindings.push_back({index, a.buffer, a.offset, a.bytes, a.copied, !a.written});
    ++index;
  }
  of(stream).encode(dispatch);
}

}  // namespace

Argument in(const View& view) { return argument(view, false); }
Argument out(const MutView& view) { return argument(view, true); }
Argument in(const Buffer& buffer) { return {buffer.handle(), buffer.offset(), buffer.bytes(), nullptr, false}; }
Argument out(const Buffer& buffer) { return {buffer.handle(), buffer.offset(), buffer.bytes(), nullptr, true}; }

Argument fault(Stream& stream) {
  const MetalStream::FaultPlace place = of(stream).next_fault();
  return {place.buffer, place.offset, int64_t(sizeof(metal_fault::Record)), nullptr, true};
}

void launch(Stream& stream, const Kernel& kernel, const Grid& grid, const Arguments& arguments) {
  encode(stream, kernel.op, kernel.name, of(stream).pipelines().of_file(kernel.file, kernel.name, kernel.constants), grid, arguments);
}

int threads_of(Stream& stream, const Kernel& kernel, int wanted) {
  const int most = of(stream).pipelines().of_file(kernel.file, kernel.name, kernel.constants).most_threads();
  return int(std::bit_floor(unsigned(wanted < most ? wanted : most)));
}

void launch_text(Stream& stream, const char* op, uint64_t serial, const std::string& text, const char* kernel, const Grid& grid,
                 const std::vector<Argument>& arguments) {
  encode(stream, op, kernel, of(stream).pipelines().of_text(serial, text, kernel), grid, arguments);
}

std::shared_ptr<Buffer> scratch(Stream& stream, int64_t bytes) { return stream.device().allocate(bytes, MemoryUse::workspace); }

}  // namespace weft::metal
