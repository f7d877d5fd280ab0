#include "weft/backends/metal/metal_device.h"
#include "weft/backends/slots.h"

namespace weft::metal {

WEFT_KERNELS(WEFT_DECLARE_KERNEL)
constexpr auto kBackend = &UnsupportedOn::metal;

const Kernels& kernels() {
  static constexpr Kernels kTable = {WEFT_KERNELS(WEFT_SLOT)};
  return kTable;
}

}  // namespace weft::metal
