// Compares our matmul with OpenBLAS's on the same shapes, in one run. OpenBLAS is loaded at run time (libopenblas.so.0).
//   build/release/bench/peers/bench_openblas [--quick]
//
// Its threads and ours spin for a while after their work; the warm-up before each timing lasts longer than that.
#include <dlfcn.h>

#include <string_view>

#include "bench/peers/products.h"
#include "weft/base/parallel.h"

namespace {

using namespace weft;

// Declarations as in cblas.h.
constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                       int ldb, float beta, float* c, int ldc);
using SetThreads = void (*)(int);
using Config = char* (*)();

template <class F>
F symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  check(found != nullptr, "bench_openblas", "libopenblas.so.0 has no ", name);
  return reinterpret_cast<F>(found);
}

double openblas(Sgemm sgemm, const bench::Product& p) {
  const auto [m, n, k] = p.size;
  const int lda = int(p.layout.transpose_a ? m : k), ldb = int(p.layout.transpose_b ? k : n);
  return p.size.flops() / bench::median_time([&] {
           sgemm(kRowMajor, p.layout.transpose_a ? kTransposed : kPlain, p.layout.transpose_b ? kTransposed : kPlain, int(m), int(n),
                 int(k), 1.0f, bench::memory_of(p.a), lda, bench::memory_of(p.b), ldb, 0.0f, bench::memory_of(p.c), int(n));
         });
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  void* library = dlopen("libopenblas.so.0", RTLD_NOW);
  if (!library) {
    std::fprintf(stderr, "bench_openblas: %s\n", dlerror());
    return 3;
  }
  const auto sgemm = symbol<Sgemm>(library, "cblas_sgemm");
  const int threads = available_threads();
  symbol<SetThreads>(library, "openblas_set_num_threads")(threads);
  std::printf("%s\n", symbol<Config>(library, "openblas_get_config")());

  const auto device = open_device("cpu", {.threads = threads});
  bench::Comparison comparison(*device, "OpenBLAS", bench::ceilings_of(*device, threads)->fma());
  for (const bench::Size size : bench::kSizes)
    for (const bench::Layout layout : bench::kLayouts) {
      if (quick && size.flops() > 2e9) continue;
      const bench::Product product(*device, size, layout);
      const double theirs = openblas(sgemm, product);
      comparison.add(product, product.ours(), theirs);
    }
  comparison.finish();
}
