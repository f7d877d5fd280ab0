#include "bench/targets.h"

namespace weft::bench {
namespace {

struct Row {
  std::string_view op, variant, name;  // variant and name are prefixes; "" matches any
  DType dtype;
  double rate;  // GB/s, or TFLOP/s for attention and GEMMs
};

// Targets for one H200: faster than PyTorch 2.11 on the same GPU (docs/performance.md).
constexpr Row kRows[] = {
    {"rms_norm", "forward", "32768x4096", DType::bf16, 3800},
    {"rms_norm", "backward", "32768x4096", DType::bf16, 3300},
    {"softmax", "forward", "32768x4096", DType::bf16, 3700},
    {"softmax", "backward", "32768x4096", DType::bf16, 3700},
    {"cross_entropy", "gradient", "8192x50304", DType::bf16, 2800},
    {"cross_entropy", "gradient", "8192x128256", DType::bf16, 2300},
    {"embedding", "backward", "50304x65536x768", DType::f32, 1500},
    {"transpose_2d", "forward", "16384x16384", DType::f32, 3700},
    {"adamw", "step", "500000000", DType::f32, 3900},
    {"elementwise", "swiglu", "268435456", DType::bf16, 3950},
    {"elementwise", "deep", "268435456", DType::f32, 3700},
    {"causal_attention", "forward", "4x4096x32x32x128", DType::bf16, 570},
    {"causal_attention", "backward", "4x4096x32x32x128", DType::bf16, 430},
    {"causal_attention", "forward", "32x1024x12x12x64", DType::bf16, 265},
    {"causal_attention", "backward", "32x1024x12x12x64", DType::bf16, 215},
    {"causal_attention", "forward", "8x4096x16x16x64", DType::bf16, 390},
    {"causal_attention", "backward", "8x4096x16x16x64", DType::bf16, 325},
    {"causal_attention", "forward", "2x8192x32x8x128", DType::bf16, 600},
    {"causal_attention", "backward", "2x8192x32x8x128", DType::bf16, 460},
    {"kv_attention", "decode", "1x1x32x8x128/after_65535", DType::bf16, 3300},
    {"kv_attention", "decode", "1x1x32x8x128/after_8191", DType::bf16, 1680},  // 20 us, replayed
    {"matmul", "NT", "8192x", DType::bf16, 0},
    {"matmul", "NT", "4096x", DType::bf16, 0},
};

}  // namespace

Target gpu_target_of(const spec::Case& c) {
  const bool arithmetic = c.op == "matmul" || c.op == "causal_attention";
  Target target{.ceilings = {arithmetic ? Ceiling::bf16_dot : Ceiling::copy}};
  if (c.op == "kv_attention") target.cold = target.replayed = true;  // as for a model's token: one graph, and KV caches that are not in L2
  for (const Row& row : kRows) {
    if (row.op != c.op || row.dtype != c.dtype || !c.variant.starts_with(row.variant) || !c.name.starts_with(row.name)) continue;
    target.in_table = true;
    target.wanted_rate = row.rate;
    break;
  }
  return target;
}

}  // namespace weft::bench
