#include "weft/backends/cpu/cpu_device.h"
#include "weft/backends/slots.h"

namespace weft::cpu {

WEFT_KERNELS(WEFT_DECLARE_KERNEL)
constexpr auto kBackend = &UnsupportedOn::cpu;

const Kernels& kernels() {
  static constexpr Kernels kTable = {WEFT_KERNELS(WEFT_SLOT)};
  return kTable;
}

}  // namespace weft::cpu
