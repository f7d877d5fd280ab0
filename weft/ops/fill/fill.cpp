#include "weft/ops/fill/fill.h"

#include <cmath>
#include <limits>

#include "weft/tensor/node.h"

namespace weft {
namespace {

bool representable(DType dtype, double value) {
  if (is_float(dtype)) return true;
  double low = 0, high = 0;
  dispatch<int32_t, uint32_t, uint8_t>(dtype, [&]<class T>() {
    low = double(std::numeric_limits<T>::min());
    high = double(std::numeric_limits<T>::max());
  });
  return value >= low && value <= high && value == std::trunc(value);
}

}  // namespace

void fill(Stream& stream, const FillArgs& args) {
  check_operands(stream, args)
      .require(representable(args.out.dtype, args.value), "value ", args.value, " is not representable as ", args.out.dtype);
  if (args.out.numel() == 0) return;
  stream.device().kernels().fill(stream, args);
}

Tensor full(Device& device, const Shape& shape, double value, DType dtype) {
  Tensor x = Tensor::empty(device, shape, dtype);
  fill(x, value);
  return x;
}

Tensor zeros(Device& device, const Shape& shape, DType dtype) { return full(device, shape, 0, dtype); }

void fill(const Tensor& x, double value) {
  check(!should_record({&x}), FillArgs::kOp, "writing over a tensor has no gradient, but it requires one; use NoGrad or detach()");
  fill(x.device().stream(), {.out = x.mut_view(), .value = value});
}

void zero(const Tensor& x) { fill(x, 0); }

}  // namespace weft
