#include "weft/tensor/kept.h"

#include "weft/base/check.h"

namespace weft {
namespace {
std::string said(const Tensor& tensor) {
  return join("a tensor of shape ", tensor.shape(), " of ", tensor.dtype(),
              " was overwritten after it was recorded, and the gradient needs what it held; run backward() before writing there, or write "
              "to a copy");
}
}  // namespace

Overwritten::Overwritten(const Tensor& tensor) : Error(ErrorCode::invalid_argument, "backward", said(tensor)), message(said(tensor)) {}

}  // namespace weft
