#include "weft/tensor/kept.h"

#include "weft/base/check.h"

namespace weft {
namespace {
std::string message_for(const Tensor& tensor) {
  return join("a tensor of shape ", tensor.shape(), " of ", tensor.dtype(),
              " was overwritten after it was recorded, and the gradient needs its old values; run backward() before writing to it, or "
              "write to a copy");
}
}  // namespace

Overwritten::Overwritten(const Tensor& tensor)
    : Error(ErrorCode::invalid_argument, "backward", message_for(tensor)), message(message_for(tensor)) {}

}  // namespace weft
