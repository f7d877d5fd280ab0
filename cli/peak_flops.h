// The peak rate that the utilisation of a training run is relative to.
#pragma once

#include "weft/device/device.h"
#include "weft/train/utilisation.h"

namespace weft::cli {

// Measures the device in the run's dtype: bf16 against bf16 dot products if the CPU has them, else f32 multiply-adds; a GPU against
// bf16 matmuls. Rate 0 (no utilisation is reported) for a simulator and for a device without such a measurement.
PeakFlops peak_flops(Device& device, int threads, bool bf16);

}  // namespace weft::cli
