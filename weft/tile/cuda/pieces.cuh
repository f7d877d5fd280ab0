// Many tensors in one launch: their descriptions travel as a kernel argument, and block i finds the piece it works on.
#pragma once

#include <algorithm>
#include <vector>

#include "weft/tile/cuda/launch.h"

namespace weft::cuda {

// As many as fit into the 4 KiB that every driver takes as kernel arguments.
template <class Tensor, int kMost>
struct Batch {
  Tensor tensor[kMost];
  unsigned first[kMost + 1];  // the first piece of each tensor; pieces are numbered over the batch
  int count;

  __device__ __forceinline__ int find(unsigned piece) const {
    int low = 0, high = count;  // first[low] <= piece < first[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      first[middle] <= piece ? low = middle : high = middle;
    }
    return low;
  }
};

// launch(batch, pieces, pieces before this batch) for tensors in batches; `size` gives a tensor's elements.
template <class Tensor, int kMost, class Size, class F>
void in_batches(const std::vector<Tensor>& tensors, int64_t piece, Size&& size, F&& launch) {
  unsigned before = 0;
  for (size_t start = 0; start < tensors.size(); start += kMost) {
    Batch<Tensor, kMost> batch{};
    batch.count = int(std::min<size_t>(kMost, tensors.size() - start));
    unsigned pieces = 0;
    for (int i = 0; i < batch.count; ++i) {
      batch.tensor[i] = tensors[start + size_t(i)];
      batch.first[i] = pieces;
      pieces += unsigned((size(batch.tensor[i]) + piece - 1) / piece);
    }
    batch.first[batch.count] = pieces;
    launch(batch, pieces, before);
    before += pieces;
  }
}

}  // namespace weft::cuda
