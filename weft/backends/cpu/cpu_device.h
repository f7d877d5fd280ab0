// The CPU as a device: system memory in huge pages, kernels in weft::cpu, one synchronous stream.
#pragma once

#include <memory>

#include "weft/device/device.h"

namespace weft::cpu {

// Base of the devices that run this backend's kernels: the CPU, and the counting device (weft/backends/counting).
class HostDevice : public Device {
 public:
  virtual int threads() const = 0;
  int host_threads() const override { return threads(); }
};

std::shared_ptr<Device> open_device(const DeviceOptions& options);

// The op table (table.cpp).
const Kernels& kernels();

// "avx512", "avx2" or "neon": the instruction set of the kernels. WEFT_ISA=avx2 selects a smaller one than the machine has; results are
// bitwise the same.
std::string isa();

}  // namespace weft::cpu
