#include "weft/backends/cpu/cpu_device.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <hwy/highway.h>

#include "weft/backends/cpu/host_memory.h"
#include "weft/backends/cpu/system_memory.h"
#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/device/checked.h"
#include "weft/tile/cpu/bf16_dot.h"

namespace weft::cpu {
namespace {

class CpuStream : public Stream {
 public:
  using Stream::Stream;
  bool synchronous() const override { return true; }

 protected:
  void wait() override {}
};

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "CPU";
}

const char* arithmetic_of(cpu::Bf16Dot dot) {
  switch (dot) {
    case cpu::Bf16Dot::none: return "cpu, bf16 as f32";
    case cpu::Bf16Dot::hardware: return "cpu, bf16 in pairs (AVX512_BF16)";
    case cpu::Bf16Dot::emulated: return "cpu, bf16 in emulated pairs";
    case cpu::Bf16Dot::amx: return "cpu, bf16 in tiles (AMX)";
    case cpu::Bf16Dot::emulated_amx: return "cpu, bf16 in emulated tiles";
  }
  return "cpu";
}

class CpuDevice : public HostDevice {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : threads_(options.threads > 0 ? options.threads : available_threads()),
        memory_(options.checked || kAlwaysChecked),
        pool_(memory_, options.checked || kAlwaysChecked, options.memory_limit),
        stream_(*this) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return join(processor_name(), ", ", threads_, threads_ == 1 ? " thread, " : " threads, ", isa());
  }
  std::string arithmetic() const override { return arithmetic_of(cpu::bf16_dot()); }
  Dialect dialect() const override { return Dialect::c; }
  DeviceTraits traits() const override { return {.matmul_in_order = true}; }
  const Kernels& kernels() const override { return cpu::kernels(); }
  Stream& stream() override { return stream_; }
  Pool& pool() override { return pool_; }
  int threads() const override { return threads_; }

  MemoryInfo memory() override {
    const HostMemory host = host_memory();
    const PoolStats stats = pool_.stats();
    return {host.total, host.available, stats.in_use, stats.high_water, host.limit};
  }

  void write(const Buffer& to, int64_t offset, const void* from, int64_t bytes) override {
    if (bytes) std::memcpy(static_cast<char*>(to.handle()) + to.offset() + offset, from, size_t(bytes));
  }
  void download(void* to, const Buffer& from, int64_t offset, int64_t bytes) override {
    if (bytes) std::memcpy(to, static_cast<const char*>(from.handle()) + from.offset() + offset, size_t(bytes));
  }
  std::shared_ptr<Buffer> borrow(void* memory, int64_t bytes, std::shared_ptr<const void> owner) override {
    return std::make_shared<Buffer>(shared_from_this(), Block{memory, 0, bytes, bytes, pool_.use()}, std::move(owner));
  }

 private:
  const int threads_;
  SystemMemory memory_;
  Pool pool_;
  CpuStream stream_;
};

// The Highway targets that our kernels are compiled for and this machine can run.
int64_t usable_targets() { return hwy::SupportedTargets() & HWY_TARGETS; }

void choose_target() {
  if (const char* wanted = std::getenv("WEFT_ISA")) {
    const std::string_view isa = wanted;
    const int64_t mask = isa == "avx512" ? HWY_AVX3 : isa == "avx2" ? HWY_AVX2 : isa == "neon" ? HWY_NEON : 0;
    check(mask != 0, "cpu", "WEFT_ISA is '", isa, "', expected avx512, avx2 or neon");
    check((usable_targets() & mask) != 0, "cpu", "WEFT_ISA is ", isa, ", which this machine or build does not support");
    hwy::SetSupportedTargetsForTest(mask);
  }
  if (usable_targets() == 0)
    fail(ErrorCode::unsupported, "cpu", "this processor lacks AVX2 and FMA (x86-64-v3) or NEON, which the kernels need");
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

int threads(const Stream& stream) { return static_cast<const HostDevice&>(stream.device()).threads(); }

std::string isa() {
  const int64_t targets = usable_targets();
  if (targets & HWY_AVX3) return "avx512";
  if (targets & HWY_AVX2) return "avx2";
  return "neon";
}

std::shared_ptr<Device> open_device(const DeviceOptions& options) {
  check(options.threads >= 0 && options.threads <= 4096, "cpu", "cannot use ", options.threads,
        " threads, expected 1 to 4096, or 0 for all this process may use");
  check(options.memory_limit >= 0, "cpu", "a memory limit of ", options.memory_limit, " bytes is negative");
  static const bool chosen = (choose_target(), true);
  (void)chosen;
  return std::make_shared<CpuDevice>(options);
}

}  // namespace weft::cpu
