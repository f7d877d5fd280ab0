// The sum of a step's micro-batches, in one order whoever computes them: a binary tree over their index, in f32.
//
//   sum of the indices [i 2^k, (i + 1) 2^k) = sum of its left half + sum of its right half
//
// A step of n micro-batches has the indices 0 to n - 1; a half without any is left out:
//
//   n = 3: (0 + 1) + 2     n = 4: (0 + 1) + (2 + 3)     n = 7: ((0 + 1) + (2 + 3)) + ((4 + 5) + 6)
//
// Such a range is a node of the tree. Its sum needs nothing outside it, so that different processes can compute different nodes.
// Each micro-batch is computed from zero: a sum that is continued in place has another order.
//
// Micro-batches that come in order need few partial sums at once, as in a binary counter: floor(log2(n)) sets of tensors beside the
// one that micro-batches are computed in. One micro-batch needs none, and nothing is launched for it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "weft/device/replayed.h"
#include "weft/tensor/tensor.h"

namespace weft {

class GradientTree {
 public:
  GradientTree() = default;
  // `values`: the f32 tensors that each micro-batch is computed in, from zero. They keep their memory.
  explicit GradientTree(std::vector<Tensor> values) : values_(std::move(values)) {}

  // Allocates the partial sums of a node of `count` micro-batches.
  void reserve(int64_t count);
  // Adds the values of micro-batch `index` of a node of `count`, both counted from the node's first, in order. After the last one
  // the values are the sum of the node; after any other they are zero again. `replay`: launches may be captured and replayed.
  void add(int64_t index, int64_t count, bool replay);

  // The part of the last add() that concerns one value: values can be finished one by one, in any order, as they become final.
  void finish(size_t value, int64_t count);

  // Whether [first, first + count) is a node of the tree over n micro-batches.
  static bool is_node(int64_t first, int64_t count, int64_t n);

 private:
  void run(Replayed& launches, bool replay, const std::function<void()>& work);

  std::vector<Tensor> values_;
  std::vector<std::vector<Tensor>> sums_;            // live partial sums, of the most micro-batches first
  std::map<std::pair<int, int>, Replayed> carries_;  // by live sums and those that are merged
  std::map<int, Replayed> ends_;                     // of the last micro-batch, by live sums
};

}  // namespace weft
