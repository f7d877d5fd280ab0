#include "weft/ops/causal_attention/cpu/sequences.h"
#include "weft/ops/document_positions/document_positions.h"

namespace weft::cpu {

// Equation: positions[t] = t - documents[d], documents[d] <= t < documents[d + 1].
// Layout:   documents [N], positions [T].
// Order:    no sums; one thread, as other kernels read positions before their tasks, also on the counting device.
// Requires: cumulative lengths from 0 to T, else it is reported and nothing is written.
// Traffic:  one read of documents, one write of positions.
void document_positions(Stream& stream, const DocumentPositionsArgs& a) {
  int32_t* positions = data<int32_t>(a.positions);
  for (const Sequence& document : sequences_of(stream, a.documents, a.positions.numel()))
    for (int64_t t = 0; t < document.tokens; ++t) positions[document.first + t] = int32_t(t);
}

}  // namespace weft::cpu
