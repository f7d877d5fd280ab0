#include "weft/base/shape.h"

#include <algorithm>

#include "weft/base/check.h"

namespace weft {

Shape::Shape(std::span<const int64_t> extents) {
  for (int64_t extent : extents) push_back(extent);
}

void Shape::push_back(int64_t extent) {
  check(rank_ < kMaxRank, "shape", "more than ", kMaxRank, " axes are not supported");
  check(extent >= 0, "shape", "extent ", extent, " of axis ", rank_, " is negative");
  extents_[rank_++] = extent;
}

int64_t Shape::numel() const {
  int64_t count = 1;
  bool overflow = false;
  for (int64_t extent : *this) overflow |= __builtin_mul_overflow(count, extent, &count);
  // An extent of zero makes the tensor empty whatever the product of the others is.
  if (std::find(begin(), end(), 0) != end()) return 0;
  check(!overflow, "shape", "the number of elements of ", *this, " exceeds 63 bits");
  return count;
}

bool Shape::operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  uint64_t step = 1;  // may overflow for an empty shape, whose strides are never used
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = int64_t(step);
    step *= uint64_t(std::max<int64_t>(shape[axis], 1));
  }
  return strides;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  if (shape.rank() == 0) return out << "scalar";
  for (int axis = 0; axis < shape.rank(); ++axis) out << (axis ? "x" : "") << shape[axis];
  return out;
}

int normalise_axis(int axis, int rank, const char* where) {
  check(axis >= -rank && axis < rank, where, "axis ", axis, " is out of range for rank ", rank);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace weft
