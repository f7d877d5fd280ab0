#include "weft/ops/copy/copy.h"
#include "weft/tile/metal/launch.h"
#include "weft/tile/metal/strided.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/copy/metal.metal";
constexpr int kThreads = 256;

void packed(Stream& stream, const CopyArgs& a) {
  const Argument from = in(a.from), to = out(a.to);
  const int64_t width = (from.offset | to.offset | from.bytes) % 16 == 0 ? 16 : (from.offset | to.offset | from.bytes) % 4 == 0 ? 4 : 1;
  const int64_t count = from.bytes / width;
  launch(stream, {a.kOp, kFile, join("packed_", width), {}}, {.groups = {striding_groups(count, kThreads), 1, 1}, .threads = kThreads},
         {from, to, params(count)});
}

}  // namespace

void copy(Stream& stream, const CopyArgs& a) {
  const bool same = a.from.dtype == a.to.dtype;
  if (same && a.from.contiguous() && a.to.contiguous()) return packed(stream, a);
  const std::string kernel = same ? join("bits_", size_of(a.to.dtype)) : join(a.from.dtype, "_", a.to.dtype);
  const StridedAxes axes = strided_axes(a.to.shape, a.from.strides, a.to.strides);
  launch(stream, {a.kOp, kFile, kernel, {}}, {.groups = {striding_groups(axes.count, kThreads), 1, 1}, .threads = kThreads},
         bind(a, {params(axes)}));
}

}  // namespace weft::metal
