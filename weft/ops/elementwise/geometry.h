// The geometry of an elementwise launch: the output's shape as rows of columns, and for each operand the distance of its rows and
// whether it advances along a row.
#pragma once

#include <span>
#include <vector>

#include "weft/tensor/view.h"

namespace weft {

struct Geometry {
  struct Operand {
    int64_t stride[kMaxRank] = {};  // elements, per outer axis; 0 where it is broadcast
    int step = 1;                   // along the row: 1, or 0 for one value per row
  };

  int64_t rows = 1, columns = 1;
  int axes = 0;  // outer axes, which the rows are counted over (the last runs fastest)
  int64_t extent[kMaxRank] = {};
  std::vector<Operand> operands;  // inputs, then outputs

  // Elements from the operand's start to where its row `row` begins.
  int64_t offset(size_t operand, int64_t row) const {
    const Operand& o = operands[operand];
    if (axes <= 1) return row * o.stride[0];
    int64_t at = 0;
    for (int axis = axes - 1; axis >= 0; --axis) {
      at += row % extent[axis] * o.stride[axis];
      row /= extent[axis];
    }
    return at;
  }
};

// Shapes are aligned at their last axes; an input's axis is as long as the output's, or 1, or missing. Axes that are
// contiguous in every operand are merged, so that contiguous operands are one row. Absent inputs fit anywhere. Throws, naming the
// input or output, when shapes do not broadcast or a row is not of unit stride.
Geometry geometry(std::span<const View> inputs, std::span<const MutView> outputs);

// The shape that all of these broadcast to; throws when there is none.
Shape broadcast_shape(std::span<const Shape> shapes);

}  // namespace weft
