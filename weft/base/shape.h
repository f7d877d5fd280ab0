// A shape (or strides): up to six 64-bit extents held inline, so that views are plain values.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

namespace weft {

inline constexpr int kMaxRank = 6;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents);  // throws if the rank exceeds kMaxRank or an extent is negative

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[axis]; }
  int64_t& operator[](int axis) { return extents_[axis]; }
  int64_t back() const { return extents_[rank_ - 1]; }
  const int64_t* begin() const { return extents_; }
  const int64_t* end() const { return extents_ + rank_; }
  void push_back(int64_t extent);

  // The product of the extents; throws if it overflows 63 bits.
  int64_t numel() const;

  bool operator==(const Shape& other) const;

 private:
  int64_t extents_[kMaxRank] = {};
  int rank_ = 0;
};

using Strides = Shape;  // in elements, never negative; an extent of 1 may have any stride

Strides contiguous_strides(const Shape& shape);

// "3x257", "scalar" for rank 0.
std::ostream& operator<<(std::ostream& out, const Shape& shape);

// Maps axis -1 to the last, -2 to the one before; throws, naming `where`, if there is no such axis.
int normalise_axis(int axis, int rank, const char* where);

}  // namespace weft
