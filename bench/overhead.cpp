#include "bench/overhead.h"

#include <functional>

#include "bench/timing.h"
#include "weft/weft.h"

namespace weft::bench {
namespace {

constexpr double kCall = 2e-6, kSetUp = 1e-6;

}  // namespace

std::vector<CallCost> call_costs(Device& device) {
  const auto values = [&](const Shape& shape) { return Tensor::from_host(device, shape, std::vector<float>(size_t(shape.numel()), 0.5f)); };
  const Tensor a = values({64}), b = values({64}), row = values({1, 64}), square = values({8, 8}), out = values({64});
  Tensor leaf = values({64});
  leaf.set_requires_grad();
  const auto gate = fuse([](Expr g, Expr u) { return silu(g) * u; });

  std::vector<CallCost> costs;
  const auto add_cost = [&](const char* what, double wanted, const std::function<void()>& call) {
    constexpr int kBatch = 1000;
    const double time = median_time(
        [&] {
          for (int i = 0; i < kBatch; ++i) call();
        },
        0.1);
    costs.push_back({what, time / kBatch, wanted});
  };
  add_cost("set-up: an empty tensor", kSetUp, [&] { Tensor::empty(device, {64}); });
  add_cost("set-up: fuse() of a known lambda", kSetUp, [&] { fuse([](Expr g, Expr u) { return silu(g) * u; }); });
  add_cost("add", kCall, [&] { add(a, b); });
  add_cost("add, recorded", kCall, [&] { add(leaf, b); });
  add_cost("silu(g) * u", kCall, [&] { gate(a, b); });
  add_cost("silu(g) * u, into", kCall, [&] { gate.into(out, a, b); });
  add_cost("silu(g) * u, recorded", kCall, [&] { gate(leaf, b); });
  add_cost("copy", kCall, [&] { copy(a, out); });
  add_cost("softmax", kCall, [&] { softmax(row); });
  add_cost("rms_norm", kCall, [&] { rms_norm(row, b, 1e-5f); });
  add_cost("rms_norm, recorded", kCall, [&] { rms_norm(row, leaf, 1e-5f); });
  add_cost("matmul 8x8x8", kCall, [&] { matmul(square, square); });
  add_cost("transpose_2d 8x8", kCall, [&] { transpose_2d(square); });
  return costs;
}

}  // namespace weft::bench
