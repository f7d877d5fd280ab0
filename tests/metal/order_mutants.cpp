// Kernels with their order of sums changed, in one place and with a result within every bound: the check of the promise of one order
// (weft/order) must find each. Run with WEFT_METAL_SIM_MATRIX_ORDER=7; without it `scalar_products` would go unnoticed, which is checked
// when the order is 0.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/order/one_order.h"
#include "weft/tile/metal/runtime.h"
#include "weft/tile/metal/source.h"

namespace weft {
namespace {

struct Change {
  const char *from, *to;
};
struct Mutant {
  const char *name, *file;
  std::vector<Change> changes;
  bool needs_drawn_order = false;
};

constexpr const char* kMatmul = "weft/ops/matmul/metal/matmul.metal";
constexpr const char* kForward = "weft/ops/causal_attention/metal/forward.metal";
constexpr const char* kDecode = "weft/ops/kv_attention/metal/kv_attention.metal";

const std::vector<Mutant> kMutants = {
    {"few_rows_split_k",
     kMatmul,
     {{"Matrix sum = filled(0.0f);\n  for (int64_t k0", "Matrix sum = filled(0.0f), other = filled(0.0f);\n  for (int64_t k0"},
      {"multiply_add(sum, matrix_at(rows + k", "multiply_add(k % 16 == 0 ? sum : other, matrix_at(rows + k"},
      {"  threadgroup float* own = lines", "  add_elements(sum, other);\n  threadgroup float* own = lines"}}},
    {"scalar_products",
     kMatmul,
     {{"Matrix sum = filled(0.0f);\n  for (int64_t k0",
       "for (int e = int(lane); column < kColumns && e < 64; e += 32) lines[64 * simd + e] = 0.0f;\n  for (int64_t k0"},
      {"multiply_add(sum, matrix_at(rows + k, kRow), y.k_by_across(column, k));",
       "for (int e = int(lane); e < 64; e += 32) for (int i = k; i < k + 8; ++i) lines[64 * simd + e] = fma(rows[e / 8 * kRow + i], "
       "right[kTransposeB ? (column + e % 8) * y.stride() + i : i * y.stride() + column + e % 8], lines[64 * simd + e]);"},
      {"simdgroup_store(sum, own, 8ul);", ""}},
     true},
    {"decoding_with_other_tiles",
     kDecode,
     {{"decltype(attend_cached<float, 64, 1, 32>) attend_cached<float, 64, 1, 32>",
       "decltype(attend_cached<float, 64, 1, 16>) attend_cached<float, 64, 1, 16>"}}},
    {"rescaling_below_a_threshold_skipped",
     kDecode,
     {{"const float shift = most == -INFINITY ? 0.0f : most;\n  const RowPair moved",
       "most = metal::simd_max(most - seen.largest) < 2.0f ? seen.largest : most;\n  const float shift = most == -INFINITY ? 0.0f : "
       "most;\n  "
       "const "
       "RowPair moved"}}},
    {"segments_joined_by_the_last_maximum",
     kDecode,
     {{"const float most = metal::fmax(earlier, segment), shift", "const float most = segment, shift"}}},
    {"training_without_segments", kForward, {{"n0 % kKeySegment == 0", "n0 % (4 * kKeySegment) == 0"}}},
};

std::string changed(std::string text, const Mutant& mutant) {
  for (const Change& change : mutant.changes) {
    const size_t at = text.find(change.from);
    check(at != std::string::npos, mutant.file, "'", change.from, "' is no longer in it; change the mutant to match");
    text.replace(at, std::string(change.from).size(), change.to);
  }
  return text;
}

OneOrderReport run(const Mutant* mutant) {
  const auto device = open_device("metal-sim");
  if (mutant)
    metal::of(device->stream()).pipelines().use_sources([mutant](std::string_view file) {
      return file == mutant->file ? changed(metal::source(file), *mutant) : metal::source(file);
    });
  ModelConfig config;
  config.vocab_size = 61, config.hidden_size = 40, config.intermediate_size = 56, config.layers = 1;
  config.heads = 4, config.kv_heads = 2, config.head_dim = 10, config.max_positions = 300;
  config.initializer_range = 0.25;  // so that maxima move
  const auto model = make_model(config, *device, 3, {.dtype = DType::f32, .trainable = true});
  return check_one_order(*model, {.tokens = 1, .batch = 2, .length = 270, .seed = 1});
}

int run_all() {
  const char* order = std::getenv("WEFT_METAL_SIM_MATRIX_ORDER");
  const bool drawn = order && std::string(order) != "0";
  int failed = 0;
  const auto hold = [&](const char* name, const Mutant* mutant, bool expected) {
    const OneOrderReport report = run(mutant);
    const bool differs = !report.differences.empty();
    std::printf("%-36s %s%s\n", name, differs ? "found: " : "same bits", differs ? report.differences[0].first.c_str() : "");
    std::fflush(stdout);
    failed += differs != expected;
  };
  hold("unchanged", nullptr, false);
  for (const Mutant& mutant : kMutants)
    if (drawn || mutant.needs_drawn_order) hold(mutant.name, &mutant, drawn);
  std::printf("%d not as expected\n", failed);
  return failed != 0;
}

}  // namespace
}  // namespace weft

int main() {
  try {
    return weft::run_all();
  } catch (const weft::Error& error) {
    std::printf("%s\n", error.what());
    return 2;
  }
}
