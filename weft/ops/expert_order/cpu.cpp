#include "weft/ops/expert_order/expert_order.h"
#include "weft/tile/cpu/kernel.h"

namespace weft::cpu {
namespace {

void sort(Stream& stream, const ExpertOrderArgs& a) {
  const int32_t* ids = data<int32_t>(a.ids);
  int32_t *starts = data<int32_t>(a.starts), *rows = data<int32_t>(a.rows), *places = data<int32_t>(a.places);
  const int64_t E = a.starts.numel() - 1, P = a.ids.numel();
  std::fill_n(starts, E + 1, 0);
  for (int64_t p = 0; p < P; ++p) {
    if (ids[p] < 0 || ids[p] >= E) return stream.report(join("id ", ids[p], " at position ", p, " is out of range [0, ", E, ")"));
    ++starts[ids[p] + 1];
  }
  for (int64_t e = 0; e < E; ++e) starts[e + 1] += starts[e];
  for (int64_t p = 0; p < P; ++p) {
    places[p] = starts[ids[p]]++;
    rows[places[p]] = int32_t(p);
  }
  for (int64_t e = E; e > 0; --e) starts[e] = starts[e - 1];
  starts[0] = 0;
}

}  // namespace

// Equation: a stable counting sort of ids: starts, rows, and places, the inverse of rows.
// Layout:   ids, places [P], rows [P], starts [E + 1].
// Order:    no sums of floats; one task.
// Requires: ids in [0, E); otherwise reports a fault and sorts nothing.
// Traffic:  two reads of ids, one write of each result.
void expert_order(Stream& stream, const ExpertOrderArgs& a) {
  parallel_for(1, 1, [&](int64_t) { sort(stream, a); });  // as a task, which the counting device skips: it has no ids
}

}  // namespace weft::cpu
