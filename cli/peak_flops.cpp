#include "cli/peak_flops.h"

#include "bench/ceilings.h"

namespace weft::cli {

PeakFlops peak_flops(Device& device, int threads, bool bf16) {
  if (device.traits().simulated) return {};
  try {
    const auto ceilings = bench::ceilings_of(device, threads);
    if (device.name() != "cpu") return {ceilings->undisturbed(bench::Ceiling::fma), "bf16 GEMM"};
    const double dot = bf16 ? ceilings->undisturbed(bench::Ceiling::bf16_dot) : 0;
    return dot > 0 ? PeakFlops{dot, "bf16 dot products"} : PeakFlops{ceilings->undisturbed(bench::Ceiling::fma), "f32 multiply-adds"};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return {};
  }
}

}  // namespace weft::cli
