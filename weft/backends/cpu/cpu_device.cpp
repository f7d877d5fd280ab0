#include "weft/backends/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <hwy/highway.h>

#include "weft/base/check.h"
#include "weft/base/parallel.h"

#include <unistd.h>

namespace weft::cpu {
namespace {

#ifdef WEFT_CHECKED
constexpr bool kAlwaysChecked = true;
#else
constexpr bool kAlwaysChecked = false;
#endif

// System memory. Page faults on large temporaries cost several times the work done in them, so from 2 MiB on a block
// is a mapping of its own, aligned to 2 MiB and advised as huge pages; what is left past its last 2 MiB has small ones.
class SystemMemory : public MemorySource {
 public:
  void* obtain(int64_t bytes) override { return bytes < kHugePage ? std::aligned_alloc(Pool::kGuardBytes, size_t(bytes)) : map(size_t(bytes)); }
  void give_back(void* handle, int64_t bytes) override {
    if (bytes < kHugePage)
      std::free(handle);
    else
      munmap(handle, size_t(bytes));
  }
  Room room() override {
    const int64_t free = sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    return {free, free};  // addresses are one range, whatever pages lie behind them
  }
  void fill(void* handle, int64_t offset, uint8_t value, int64_t bytes) override {
    std::memset(static_cast<char*>(handle) + offset, value, size_t(bytes));
  }
  void read(void* handle, int64_t offset, void* host, int64_t bytes) override {
    std::memcpy(host, static_cast<char*>(handle) + offset, size_t(bytes));
  }

 private:
  static constexpr int64_t kHugePage = int64_t(2) << 20;

  // Maps 2 MiB more than asked for and gives back what lies before the first multiple of 2 MiB and after the end. The
  // pool's sizes from 2 MiB on are multiples of any page, but for the guards of a checked pool.
  static void* map(size_t bytes) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE)), length = (bytes + page - 1) / page * page, slack = size_t(kHugePage);
    void* mapped = mmap(nullptr, length + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    char* const from = static_cast<char*>(mapped);
    const size_t before = (slack - reinterpret_cast<uintptr_t>(from) % slack) % slack;
    if (before) munmap(from, before);
    if (before < slack) munmap(from + before + length, slack - before);
#ifdef MADV_HUGEPAGE
    madvise(from + before, length, MADV_HUGEPAGE);
#endif
    return from + before;
  }
};

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

class CpuDevice : public HostDevice {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : threads_(options.threads > 0 ? options.threads : available_threads()),
        pool_(memory_, options.checked || kAlwaysChecked, options.memory_limit),
        stream_(*this) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return join(processor_name(), ", ", threads_, threads_ == 1 ? " thread, " : " threads, ", isa());
  }
  Dialect dialect() const override { return Dialect::c; }
  const Kernels& kernels() const override { return cpu::kernels(); }
  Stream& stream() override { return stream_; }
  Pool& pool() override { return pool_; }
  int threads() const override { return threads_; }

  MemoryInfo memory() override {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const PoolStats stats = pool_.stats();
    return {sysconf(_SC_PHYS_PAGES) * page, sysconf(_SC_AVPHYS_PAGES) * page, stats.in_use, stats.high_water};
  }

  void upload(const Buffer& to, int64_t offset, const void* from, int64_t bytes) override {
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

// The targets our kernels are compiled for that this machine can run.
int64_t usable_targets() { return hwy::SupportedTargets() & HWY_TARGETS; }

void choose_target() {
  if (const char* wanted = std::getenv("WEFT_ISA")) {
    const std::string_view isa = wanted;
    const int64_t mask = isa == "avx512" ? HWY_AVX3 : isa == "avx2" ? HWY_AVX2 : isa == "neon" ? HWY_NEON : 0;
    check(mask != 0, "cpu", "WEFT_ISA is '", isa, "', expected avx512, avx2 or neon");
    check((usable_targets() & mask) != 0, "cpu", "WEFT_ISA asks for ", isa, ", which this machine or build does not have");
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
  check(options.memory_limit >= 0, "cpu", "a memory limit of ", options.memory_limit, " bytes makes no sense");
  static const bool chosen = (choose_target(), true);
  (void)chosen;
  return std::make_shared<CpuDevice>(options);
}

}  // namespace weft::cpu
