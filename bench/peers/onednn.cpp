// Our matmul beside oneDNN's on the same shapes, in one run, and whether oneDNN keeps its bits across thread counts.
//   build/release/bench/peers/bench_onednn [--quick]
#include <omp.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "bench/ceilings.h"
#include "weft/base/parallel.h"
#include "weft/base/philox.h"
#include "weft/weft.h"

namespace {

using namespace weft;

struct Size {
  int64_t m, n, k;
};
constexpr Size kSizes[] = {{128, 576, 576},  {128, 1536, 576},  {128, 576, 1536},   {128, 49152, 576},  {1024, 768, 768},
                           {1024, 3072, 768}, {1024, 768, 3072}, {1024, 50304, 768}, {2048, 2048, 2048}};

struct Layout {
  const char* name;
  bool transpose_a, transpose_b;
};
constexpr Layout kLayouts[] = {{"NN", false, false}, {"NT", false, true}, {"TN", true, false}};

Tensor random(Device& device, const Shape& shape, uint64_t seed) {
  PhiloxStream stream(seed);
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (float& value : values) value = float(stream.uniform() * 2 - 1);
  return Tensor::from_host(device, shape, values);
}

void* memory_of(const Tensor& t) { return static_cast<char*>(t.view().buffer->handle()) + t.view().buffer->offset(); }

// c = op(a) op(b) through oneDNN; the primitive is made once, as a caller with fixed shapes would.
class OneDnn {
 public:
  OneDnn(Size s, Layout l, const Tensor& a, const Tensor& b, const Tensor& c) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using tag = dnnl::memory::format_tag;
    const auto f32 = dnnl::memory::data_type::f32;
    const dnnl::memory::desc ad({s.m, s.k}, f32, l.transpose_a ? tag::ba : tag::ab), bd({s.k, s.n}, f32, l.transpose_b ? tag::ba : tag::ab),
        cd({s.m, s.n}, f32, tag::ab);
    primitive_ = dnnl::matmul({{ad, bd, cd}, engine_});
    args_ = {{DNNL_ARG_SRC, {ad, engine_, memory_of(a)}}, {DNNL_ARG_WEIGHTS, {bd, engine_, memory_of(b)}}, {DNNL_ARG_DST, {cd, engine_, memory_of(c)}}};
  }
  void run() {
    primitive_.execute(stream_, args_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  std::unordered_map<int, dnnl::memory> args_;
};

std::vector<float> onednn_result(int threads, Size s, Layout l, const Tensor& a, const Tensor& b, const Tensor& c) {
  omp_set_num_threads(threads);
  OneDnn(s, l, a, b, c).run();
  return c.to_host<float>();
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const int threads = available_threads();
  const auto device = open_device("cpu", {.threads = threads});
  const double peak = bench::ceilings_of(*device, threads)->fma();
  std::printf("%s, peak %.0f GFLOP/s\n%-20s %-3s %16s %16s %8s  %s\n", device->description().c_str(), peak * 1e-9, "M,N,K", "", "weft (of peak)", "oneDNN (of peak)",
              "ratio", "oneDNN bits, 1 against many threads");
  double ours_log = 0, theirs_log = 0;
  int count = 0;
  for (const Size s : kSizes)
    for (const Layout l : kLayouts) {
      if (quick && double(s.m) * double(s.n) * double(s.k) > 1e9) continue;
      const Tensor a = random(*device, l.transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k}, 1);
      const Tensor b = random(*device, l.transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n}, 2);
      const Tensor c = Tensor::empty(*device, {s.m, s.n});
      const auto one = onednn_result(1, s, l, a, b, c), many = onednn_result(threads, s, l, a, b, c);
      const bool same = std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0;
      OneDnn peer(s, l, a, b, c);
      const double flops = 2.0 * double(s.m) * double(s.n) * double(s.k);
      const double theirs = flops / bench::median_time([&] { peer.run(); }) / peak;
      const MatmulArgs args{.a = a.view(), .b = b.view(), .c = c.mut_view(), .bias = {}, .pre = {}, .transpose_a = l.transpose_a, .transpose_b = l.transpose_b};
      const double ours = flops / bench::median_time([&] { matmul(device->stream(), args); }) / peak;
      std::printf("%5ld,%5ld,%5ld    %-3s %16.2f %16.2f %8.2f  %s\n", long(s.m), long(s.n), long(s.k), l.name, ours, theirs, ours / theirs, same ? "same" : "differ");
      std::fflush(stdout);
      ours_log += std::log(ours);
      theirs_log += std::log(theirs);
      ++count;
    }
  std::printf("geomean              %20.2f %16.2f %8.2f\n", std::exp(ours_log / count), std::exp(theirs_log / count), std::exp((ours_log - theirs_log) / count));
}
