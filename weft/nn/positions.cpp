#include "weft/nn/positions.h"

#include <numeric>

#include "weft/ops/copy/copy.h"

namespace weft {
namespace {

constexpr int64_t kShortest = 64;

// The first T positions, of a row that is long enough.
template <class Number>
Tensor first(Device& device, std::vector<Tensor>& rows, int64_t T) {
  for (const Tensor& row : rows)
    if (row.numel() >= T) return row.part(0, 0, T);
  int64_t length = rows.empty() ? kShortest : 2 * rows.back().numel();
  while (length < T) length *= 2;
  std::vector<Number> positions(static_cast<size_t>(length));
  std::iota(positions.begin(), positions.end(), Number(0));
  rows.push_back(Tensor::from_host(device, {length}, positions));
  return rows.back().part(0, 0, T);
}

}  // namespace

Tensor Positions::ids(int64_t B, int64_t T) {
  const Tensor row = first<int32_t>(device_, ids_, T);
  if (B == 1) return row.reshape({1, T});
  Tensor all = Tensor::empty(device_, {B, T}, DType::i32);
  View repeated = row.view();
  repeated.shape = {B, T};
  repeated.strides = {0, 1};
  copy(device_.stream(), {.from = repeated, .to = all.mut_view()});
  return all;
}

Tensor Positions::values(int64_t T) { return first<float>(device_, values_, T); }

}  // namespace weft
