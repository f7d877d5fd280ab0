#include "weft/ops/elementwise/geometry.h"

#include <algorithm>
#include <string>

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr const char* kOp = "elementwise";

struct Axis {
  int64_t extent;
  std::vector<int64_t> strides;  // per operand
};

// The operand's stride along each axis of `shape`, 0 where it is broadcast.
Strides aligned_strides(const View& view, const Shape& shape, const char* role, size_t index) {
  check(view.rank() <= shape.rank(), kOp, role, " ", index, " has shape ", view.shape, ", which does not broadcast to ", shape);
  Strides strides = shape;
  const int missing = shape.rank() - view.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool has = axis >= missing;
    const int64_t extent = has ? view.shape[axis - missing] : 1;
    check(extent == shape[axis] || extent == 1, kOp, role, " ", index, " has shape ", view.shape, ", which does not broadcast to ", shape);
    strides[axis] = extent == 1 ? 0 : view.strides[axis - missing];
  }
  return strides;
}

// All of one shape without gaps: one long row, as in most calls.
bool one_row(std::span<const View> inputs, std::span<const MutView> outputs) {
  const Shape& shape = outputs[0].shape;
  const auto plain = [&](const View& view) { return view && view.shape == shape && view.contiguous(); };
  return shape.numel() > 0 && std::all_of(inputs.begin(), inputs.end(), plain) && std::all_of(outputs.begin(), outputs.end(), plain);
}

// From the last axis outwards: an axis is merged with the one inside it if every operand continues without a gap. Innermost first.
std::vector<Axis> joined_axes(const Shape& shape, const std::vector<Strides>& strides) {
  std::vector<Axis> axes;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    const bool joins = !axes.empty() && std::all_of(strides.begin(), strides.end(), [&, i = size_t(0)](const Strides& s) mutable {
      return s[axis] == axes.back().strides[i++] * axes.back().extent;
    });
    if (joins) {
      axes.back().extent *= shape[axis];
      continue;
    }
    axes.push_back({shape[axis], {}});
    for (const Strides& s : strides) axes.back().strides.push_back(s[axis]);
  }
  return axes;
}

}  // namespace

Geometry geometry(std::span<const View> inputs, std::span<const MutView> outputs) {
  const Shape& shape = outputs[0].shape;
  const size_t count = inputs.size() + outputs.size();
  Geometry g;
  g.operands.resize(count);
  if (one_row(inputs, outputs)) {
    g.columns = shape.numel();
    return g;
  }
  const auto role = [&](size_t i) { return i < inputs.size() ? "input" : "output"; };
  const auto index = [&](size_t i) { return i < inputs.size() ? i : i - inputs.size(); };
  std::vector<Strides> strides(count);
  for (size_t i = 0; i < count; ++i) {
    const View& view = i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    if (i >= inputs.size()) check(view.shape == shape, kOp, "output ", index(i), " has shape ", view.shape, ", output 0 ", shape);
    if (!view) {
      for (int axis = 0; axis < shape.rank(); ++axis) strides[i].push_back(0);
      continue;
    }
    strides[i] = aligned_strides(view, shape, role(i), index(i));
  }

  std::vector<Axis> axes = joined_axes(shape, strides);
  // A column cut out of something wider ([R, 1] with rows apart): rows of one element.
  const auto apart = [](int64_t stride) { return stride != 0 && stride != 1; };
  if (!axes.empty() && shape.back() == 1 && std::any_of(axes[0].strides.begin(), axes[0].strides.end(), apart)) {
    axes.insert(axes.begin(), {1, std::vector<int64_t>(count, 1)});
    for (size_t i = 0; i < inputs.size(); ++i) axes[0].strides[i] = inputs[i] ? 1 : 0;
  }

  if (axes.empty()) {  // one element
    for (size_t i = 0; i < inputs.size(); ++i) g.operands[i].step = inputs[i] ? 1 : 0;
    return g;
  }
  g.columns = axes[0].extent;
  g.axes = int(axes.size()) - 1;
  for (int axis = 0; axis < g.axes; ++axis) {
    const Axis& from = axes[axes.size() - 1 - size_t(axis)];
    g.extent[axis] = from.extent;
    g.rows *= from.extent;
    for (size_t i = 0; i < count; ++i) g.operands[i].stride[axis] = from.strides[i];
  }
  for (size_t i = inputs.size(); i < count; ++i)  // the rows of an output are apart, so that no element is written twice
    for (int axis = 0; axis < g.axes; ++axis)
      check(g.operands[i].stride[axis] >= g.columns, kOp, "output ", index(i), " has rows that overlap, strides ",
            outputs[index(i)].strides, " for shape ", shape);
  for (size_t i = 0; i < count; ++i) {
    const int64_t step = axes[0].strides[i];
    const View& view = i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    check(step == 1 || (step == 0 && i < inputs.size()) || shape.numel() == 0, kOp, role(i), " ", index(i),
          " must have unit stride along its last axis, got strides ", view.strides, " for shape ", view.shape);
    g.operands[i].step = int(step);
  }
  return g;
}

Shape broadcast_shape(std::span<const Shape> shapes) {
  Shape result;
  for (const Shape& shape : shapes) {
    Shape longer = shape.rank() > result.rank() ? shape : result;
    const Shape& shorter = shape.rank() > result.rank() ? result : shape;
    const int missing = longer.rank() - shorter.rank();
    for (int axis = 0; axis < shorter.rank(); ++axis) {
      int64_t& extent = longer[axis + missing];
      check(extent == shorter[axis] || extent == 1 || shorter[axis] == 1, kOp, "shapes ", result, " and ", shape, " do not broadcast");
      if (extent == 1) extent = shorter[axis];
    }
    result = longer;
  }
  return result;
}

}  // namespace weft
