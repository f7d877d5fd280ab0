#include "weft/ops/matmul/matmul.h"
#include "weft/ops/matmul/params.h"
#include "weft/tile/metal/launch.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/matmul/metal/matmul.metal";

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

MatmulPlace place(const MatmulPlan::Matrix& m) { return {m.row, m.outer, m.inner}; }

// Whether every row starts at a multiple of four elements.
bool aligned(const View& view, const MatmulPlan::Matrix& m) {
  return (view.buffer->offset() + view.offset) % (4 * size_of(view.dtype)) == 0 && m.row % 4 == 0 && m.outer % 4 == 0 && m.inner % 4 == 0;
}

std::string suffix(const MatmulArgs& a) {
  const std::string out = a.c.dtype == DType::f32 ? "f32" : "bf16";
  return (a.a.dtype == DType::f32 ? "_f32_" : "_bf16_") + out;
}

// Large blocks read less, small ones leave fewer cores idle: large ones if there are enough of them, by shape alone.
int block(const MatmulPlan& p) {
  constexpr int64_t kEnough = 64;
  return p.M > 32 && p.N > 32 && p.batch() * ceil_div(p.M, 64) * ceil_div(p.N, 64) >= kEnough ? 64 : 32;
}

}  // namespace

void matmul(Stream& stream, const MatmulArgs& a) {
  if (a.scales) fail(ErrorCode::unsupported, a.kOp, "int8 weights have no Metal kernel");
  const MatmulPlan p = plan(a);
  if (p.batch() * p.M * p.N == 0) return;
  constexpr int64_t kFewRows = 8;  // of one matrix
  const int64_t rows = p.shared_b ? p.batch() * p.M : p.M, jobs = p.shared_b ? 1 : p.batch();
  const bool wide = a.bias && a.bias.dtype == DType::f32;
  const MatmulParams params_of{p.M,
                               p.N,
                               p.K,
                               p.inner,
                               place(p.a),
                               place(p.b),
                               place(p.c),
                               place(p.pre),
                               int32_t(std::min(rows, kFewRows)),
                               int32_t(a.activation),
                               a.alpha,
                               a.beta};
  Kernel kernel{a.kOp,
                kFile,
                {},
                {constant(0, a.transpose_a), constant(1, a.transpose_b), constant(2, aligned(a.a, p.a)), constant(3, aligned(a.b, p.b)),
                 constant(4, bool(a.bias) && !wide), constant(5, wide), constant(6, bool(a.pre)), constant(7, p.shared_b)}};
  Grid grid;
  // Both kernels have the same order, so the choice changes no bits. Where lines of B run along N, 32 of its columns are 64 bytes or more.
  if (rows <= kFewRows) {
    kernel.name = "multiply_few" + suffix(a) + (a.transpose_b ? "_rows" : "_columns");
    grid = {.groups = {ceil_div(p.N, a.transpose_b ? 16 : 32), 1, jobs}, .threads = 128};
  } else {
    const int side = block(p);
    kernel.name = "multiply" + suffix(a) + "_" + std::to_string(side);
    grid = {.groups = {ceil_div(p.N, side), ceil_div(p.M, side), p.batch()}, .threads = 128};
  }
  launch(stream, kernel, grid,
         {in(a.a), in(a.b), out(a.c), a.pre ? out(a.pre) : nothing(), a.bias && !wide ? in(a.bias) : nothing(),
          wide ? in(a.bias) : nothing(), params(params_of)});
}

}  // namespace weft::metal
