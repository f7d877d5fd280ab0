// Compares our matmul with oneDNN's on the same shapes, in one run, and tests whether oneDNN's bits depend on the thread count.
//   build/release/bench/peers/bench_onednn [--quick]
#include <omp.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <unordered_map>

#include "bench/peers/products.h"
#include "weft/base/parallel.h"

namespace {

using namespace weft;

// c = op(a) op(b) through oneDNN; the primitive is created once, as a caller with fixed shapes would.
class OneDnn {
 public:
  explicit OneDnn(const bench::Product& p) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using tag = dnnl::memory::format_tag;
    const auto f32 = dnnl::memory::data_type::f32;
    const auto& [s, l, a, b, c] = p;
    const dnnl::memory::desc ad({s.m, s.k}, f32, l.transpose_a ? tag::ba : tag::ab), bd({s.k, s.n}, f32, l.transpose_b ? tag::ba : tag::ab),
        cd({s.m, s.n}, f32, tag::ab);
    primitive_ = dnnl::matmul({{ad, bd, cd}, engine_});
    args_ = {{DNNL_ARG_SRC, {ad, engine_, bench::memory_of(a)}},
             {DNNL_ARG_WEIGHTS, {bd, engine_, bench::memory_of(b)}},
             {DNNL_ARG_DST, {cd, engine_, bench::memory_of(c)}}};
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

std::vector<float> onednn_result(int threads, const bench::Product& p) {
  omp_set_num_threads(threads);
  OneDnn(p).run();
  return p.c.to_host<float>();
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const int threads = available_threads();
  const auto device = open_device("cpu", {.threads = threads});
  bench::Comparison comparison(*device, "oneDNN", bench::ceilings_of(*device, threads)->fma());
  for (const bench::Size size : bench::kSizes)
    for (const bench::Layout layout : bench::kLayouts) {
      if (quick && size.flops() > 2e9) continue;
      const bench::Product product(*device, size, layout);
      const auto one = onednn_result(1, product), many = onednn_result(threads, product);
      const bool same = std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0;
      OneDnn peer(product);
      const auto [ours, theirs] = product.beside([&] { peer.run(); });
      comparison.add(product, ours, theirs,
                     same ? "oneDNN: same bits on 1 and many threads" : "oneDNN: different bits on 1 and many threads");
    }
  comparison.finish();
}
