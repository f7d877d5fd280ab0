#include "weft/backends/cuda/cuda_device.h"
#include "weft/backends/slots.h"

namespace weft::cuda {

WEFT_KERNELS(WEFT_DECLARE_KERNEL)
constexpr auto kBackend = &UnsupportedOn::cuda;

const Kernels& kernels() {
  static constexpr Kernels kTable = {WEFT_KERNELS(WEFT_SLOT)};
  return kTable;
}

}  // namespace weft::cuda
