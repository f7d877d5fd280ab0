// The GEMMs that peers are compared on, and their matrices.
#pragma once

#include <cmath>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "bench/ceilings.h"
#include "weft/base/philox.h"
#include "weft/weft.h"

namespace weft::bench {

struct Size {
  int64_t m, n, k;
  double flops() const { return 2.0 * double(m) * double(n) * double(k); }
};
inline constexpr Size kSizes[] = {{128, 576, 576},   {128, 1536, 576},  {128, 576, 1536},   {128, 49152, 576}, {1024, 768, 768},
                                  {1024, 3072, 768}, {1024, 768, 3072}, {1024, 50304, 768}, {2048, 2048, 2048}};

struct Layout {
  const char* name;
  bool transpose_a, transpose_b;
};
inline constexpr Layout kLayouts[] = {{"NN", false, false}, {"NT", false, true}, {"TN", true, false}};

inline Tensor random_tensor(Device& device, const Shape& shape, uint64_t seed) {
  PhiloxStream stream(seed);
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (float& value : values) value = float(stream.uniform() * 2 - 1);
  return Tensor::from_host(device, shape, values);
}

inline float* memory_of(const Tensor& t) {
  return reinterpret_cast<float*>(static_cast<char*>(t.view().buffer->handle()) + t.view().buffer->offset());
}

// c = op(a) op(b) of one size and layout.
struct Product {
  Size size;
  Layout layout;
  Tensor a, b, c;

  Product(Device& device, Size s, Layout l)
      : size(s),
        layout(l),
        a(random_tensor(device, l.transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k}, 1)),
        b(random_tensor(device, l.transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n}, 2)),
        c(Tensor::empty(device, {s.m, s.n})) {}

  void run() const {
    matmul(a.device().stream(), {.a = a.view(),
                                 .b = b.view(),
                                 .c = c.mut_view(),
                                 .bias = {},
                                 .pre = {},
                                 .transpose_a = layout.transpose_a,
                                 .transpose_b = layout.transpose_b});
  }
  // FLOP/s of our own matmul.
  double ours() const {
    return size.flops() / median_time([&] { run(); });
  }
  // FLOP/s of ours and of a peer's, run in turns: a disturbance affects both.
  std::pair<double, double> beside(const std::function<void()>& peer) const {
    const auto [ours, theirs] = median_times([&] { run(); }, peer);
    return {size.flops() / ours, size.flops() / theirs};
  }
};

// Prints one line per GEMM, and the geometric means at the end.
class Comparison {
 public:
  Comparison(const Device& device, const char* peer, double peak) : peak_(peak) {
    std::printf("%s, peak %.0f GFLOP/s\n%-20s %-3s %16s %12s (of peak) %8s\n", device.description().c_str(), peak * 1e-9, "M,N,K", "",
                "weft (of peak)", peer, "ratio");
  }
  void add(const Product& p, double ours, double theirs, const char* note = "") {
    std::printf("%5ld,%5ld,%5ld    %-3s %16.2f %22.2f %8.2f  %s\n", long(p.size.m), long(p.size.n), long(p.size.k), p.layout.name,
                ours / peak_, theirs / peak_, ours / theirs, note);
    std::fflush(stdout);
    ours_ += std::log(ours / peak_);
    theirs_ += std::log(theirs / peak_);
    ++count_;
  }
  void finish() const {
    if (count_)
      std::printf("geomean                  %16.2f %22.2f %8.2f\n", std::exp(ours_ / count_), std::exp(theirs_ / count_),
                  std::exp((ours_ - theirs_) / count_));
  }

 private:
  double peak_, ours_ = 0, theirs_ = 0;
  int count_ = 0;
};

}  // namespace weft::bench
