// The CPU as a device: memory from the system in huge pages, kernels in weft::cpu, one synchronous stream.
#pragma once

#include <memory>

#include "weft/device/device.h"

namespace weft::cpu {

// What this backend's kernels run on: the device itself, and the one that only counts (weft/backends/counting).
class HostDevice : public Device {
 public:
  virtual int threads() const = 0;
};

std::shared_ptr<Device> open_device(const DeviceOptions& options);

// The op table (table.cpp).
const Kernels& kernels();

// "avx512", "avx2" or "neon": the instruction set that kernels run with. WEFT_ISA=avx2 asks for less than the machine
// has; results keep their bits.
std::string isa();

}  // namespace weft::cpu
