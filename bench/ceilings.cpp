#include "bench/ceilings.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "bench/ceilings_cpu.h"
#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/uniform/uniform.h"

namespace weft::bench {
namespace {

constexpr double kSeconds = 0.1;
constexpr int64_t kLine = 16;  // floats

// Floats on 4 KiB pages, like those of a mapped file.
class SmallPages {
 public:
  explicit SmallPages(int64_t n) : bytes_(size_t(n) * sizeof(float)) {
    void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(mapped != MAP_FAILED, "bench", "cannot map ", bytes_, " bytes");
    memory_ = static_cast<float*>(mapped);
#ifdef MADV_NOHUGEPAGE
    madvise(mapped, bytes_, MADV_NOHUGEPAGE);
#endif
  }
  ~SmallPages() { munmap(memory_, bytes_); }
  SmallPages(const SmallPages&) = delete;
  SmallPages& operator=(const SmallPages&) = delete;
  float* data() const { return memory_; }

 private:
  size_t bytes_;
  float* memory_;
};

class CpuCeilings : public Ceilings {
 public:
  CpuCeilings(Device& device, int threads) : device_(device), threads_(threads) {
    rate(kFlopsPerStep, fma_chain, 0.5);  // warm-up: clocks settle, threads start
  }

  double measure(Ceiling ceiling, double bytes) override {
    switch (ceiling) {
      case Ceiling::fma: return rate(kFlopsPerStep, fma_chain, kSeconds);
      case Ceiling::bf16_dot: return has_bf16_dot() ? rate(dot_flops_per_step(), bf16_dot_chain, kSeconds) : 0;
      case Ceiling::exp: return rate(kExpsPerStep, exp_chain, kSeconds);
      case Ceiling::copy: return bandwidth(bytes, 2, false, [](float* const* p, int64_t n) { copy_chunk(p[0], p[1], n); });
      case Ceiling::triad: return bandwidth(bytes, 3, false, [](float* const* p, int64_t n) { triad_chunk(p[0], p[1], p[2], n); });
      case Ceiling::read:
      case Ceiling::read_small:
        return bandwidth(bytes, 1, ceiling == Ceiling::read_small,
                         [](float* const* p, int64_t n) { [[maybe_unused]] volatile float sink = read_chunk(p[0], n); });
    }
    return 0;
  }

  double undisturbed(Ceiling ceiling) override {
    switch (ceiling) {
      case Ceiling::fma: return burst_rate(kFlopsPerStep, fma_chain);
      case Ceiling::bf16_dot: return has_bf16_dot() ? burst_rate(dot_flops_per_step(), bf16_dot_chain) : 0;
      case Ceiling::exp: return burst_rate(kExpsPerStep, exp_chain);
      default: return measure(ceiling, 0);
    }
  }

 private:
  // Bursts on every thread, each timed separately: far shorter than a time slice, so that most run undisturbed even if other processes use
  // the core.
  double burst_rate(double per_step, float (*chain)(int64_t)) {
    constexpr int64_t kSteps = 2'000;  // 15 us at 50 GFLOP/s
    constexpr int kBursts = 50;
    std::vector<std::vector<double>> times(static_cast<size_t>(threads_));
    const auto burst = [&] { [[maybe_unused]] volatile float sink = chain(kSteps); };
    median_time(
        [&] {
          parallel_for(threads_, threads_, [&](int64_t task) {
            for (int i = 0; i < kBursts; ++i) times[size_t(task)].push_back(time_of(burst));
          });
        },
        kSeconds);
    double rate = 0;
    for (std::vector<double>& thread : times) rate += per_step * kSteps / median(thread);
    return rate;
  }

  double rate(double per_step, float (*chain)(int64_t), double seconds) {
    constexpr int64_t kSteps = 20'000;
    const double time = median_time(
        [&] { parallel_for(threads_, threads_, [&](int64_t) { [[maybe_unused]] volatile float sink = chain(kSteps); }); }, seconds);
    return double(threads_) * per_step * kSteps / time;
  }

  // `arrays` equal arrays, `bytes` in all; each thread has its own range of each, in whole cache lines.
  template <class F>
  double bandwidth(double bytes, int arrays, bool small_pages, F chunk) {
    const int64_t n = int64_t(std::clamp(bytes, 4096.0, 2e9)) / 4 / arrays / kLine * kLine;
    prepare(n, arrays, small_pages);
    // Small working sets are repeated inside one parallel region.
    const int64_t share = ceil_div(ceil_div(n, threads_), kLine) * kLine, repeats = std::max<int64_t>(1, 500'000 / n);
    const double time = median_time(
        [&] {
          parallel_for(threads_, threads_, [&](int64_t task) {
            const int64_t first = std::min(n, task * share), count = std::min(n, first + share) - first;
            float* at[3] = {};
            for (int i = 0; i < arrays; ++i) at[i] = arrays_[i] + first;
            for (int64_t r = 0; r < repeats; ++r) chunk(at, count);
          });
        },
        kSeconds);
    return double(arrays) * 4 * double(n) * double(repeats) / time;
  }

  // Keeps the arrays of the last measurement: the next one usually needs the same.
  void prepare(int64_t n, int arrays, bool small_pages) {
    if (n == n_ && arrays == int(arrays_.size()) && small_pages == (mapped_ != nullptr)) return;
    arrays_.clear();
    buffers_.clear();
    mapped_.reset();
    if (small_pages) {
      mapped_ = std::make_unique<SmallPages>(n);
      arrays_.push_back(mapped_->data());
    }
    while (int(arrays_.size()) < arrays) {
      buffers_.push_back(device_.allocate(n * 4));
      arrays_.push_back(reinterpret_cast<float*>(static_cast<char*>(buffers_.back()->handle()) + buffers_.back()->offset()));
    }
    for (float* array : arrays_) std::fill(array, array + n, 1.0f);
    n_ = n;
  }

  Device& device_;
  const int threads_;
  int64_t n_ = 0;
  std::unique_ptr<SmallPages> mapped_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::vector<float*> arrays_;
};

// Ceilings of a GPU: a large copy within its memory, and a large bf16 GEMM of its library. Other arithmetic is compared with that GEMM as
// well; nothing else is measured there.
class GpuCeilings : public Ceilings {
 public:
  explicit GpuCeilings(Device& device) : device_(device) {}

  double measure(Ceiling ceiling, double) override {
    switch (ceiling) {
      case Ceiling::copy:
      case Ceiling::triad:
      case Ceiling::read:
      case Ceiling::read_small: return copy_ ? copy_ : copy_ = copies();
      case Ceiling::bf16_dot:
      case Ceiling::fma: return product_ ? product_ : product_ = products();
      case Ceiling::exp: return 0;
    }
    return 0;
  }

 private:
  double copies() {
    constexpr int64_t kBytes = int64_t(2) << 30;
    const Tensor from = full(device_, {kBytes / 4}, 1.0), to = Tensor::empty(device_, {kBytes / 4});
    return 2.0 * double(kBytes) / median_of([&] { return device_.stream().seconds_of([&] { weft::copy(from, to); }); });
  }
  // Uses random values: zeros run faster.
  double products() {
    constexpr int64_t kSide = 8192;
    const Tensor state = random_state(device_, 1), a = cast(uniform(device_, {kSide, kSide}, state, 0, -1, 1), DType::bf16),
                 b = cast(uniform(device_, {kSide, kSide}, state, 1, -1, 1), DType::bf16),
                 c = Tensor::empty(device_, {kSide, kSide}, DType::bf16);
    const MatmulArgs args{.a = a.view(), .b = b.view(), .c = c.mut_view(), .bias = {}, .pre = {}};
    return 2.0 * kSide * kSide * kSide / median_of([&] { return device_.stream().seconds_of([&] { matmul(device_.stream(), args); }); });
  }

  Device& device_;
  double copy_ = 0, product_ = 0;
};

}  // namespace

std::string_view name(Ceiling ceiling) {
  switch (ceiling) {
    case Ceiling::fma: return "fma_gflops";
    case Ceiling::bf16_dot: return "bf16_dot_gflops";
    case Ceiling::exp: return "exp_geps";
    case Ceiling::copy: return "copy_gbps";
    case Ceiling::triad: return "triad_gbps";
    case Ceiling::read: return "read_gbps";
    case Ceiling::read_small: return "read_small_pages_gbps";
  }
  return "";
}

std::unique_ptr<Ceilings> ceilings_of(Device& device, int threads) {
  if (device.traits().simulated) fail(ErrorCode::unsupported, "bench", device.name(), " is simulated: its times are meaningless");
  if (device.dialect() != Dialect::c) return std::make_unique<GpuCeilings>(device);
  return std::make_unique<CpuCeilings>(device, threads);
}

}  // namespace weft::bench
