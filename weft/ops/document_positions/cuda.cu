#include "weft/ops/document_positions/document_positions.h"
#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/launch.h"

namespace weft::cuda {
namespace {

struct Params {
  const int32_t* documents;
  int32_t* positions;
  int N, T;
  Fault* fault;
  const char* op;
};

// Equation: positions[t] = t - documents[d], documents[d] <= t < documents[d + 1].
// Layout:   documents [N], positions [T].
// Order:    no sums; a thread checks documents[i] and writes positions[i], after a binary search for the last d that begins at or before i.
// Requires: cumulative lengths from 0 to T: the first other one is reported, and positions stay within [0, T).
// Traffic:  one write of positions; documents from cache.
__global__ void positions_of(const Params p) {
  const int i = int(blockIdx.x) * 256 + int(threadIdx.x);
  if (i < p.N) {
    const int value = p.documents[i], least = i == 0 ? 0 : p.documents[i - 1], most = i == 0 ? 0 : p.T;
    if (value < least || value > most || (i == p.N - 1 && value != p.T)) report(p.fault, Fault::bad_documents, p.op, value, i, p.T);
  }
  if (i >= p.T) return;
  int first = 0, last = p.N;  // documents[first] <= i, and documents[last] > i where there is one
  while (last - first > 1) {
    const int middle = first + (last - first) / 2;
    p.documents[middle] <= i ? first = middle : last = middle;
  }
  p.positions[i] = min(max(i - max(p.documents[first], 0), 0), p.T - 1);
}

}  // namespace

void document_positions(Stream& stream, const DocumentPositionsArgs& a) {
  const Launch launch(stream, a.kOp, {&a.documents, &a.positions});
  const int N = int(a.documents.numel()), T = int(a.positions.numel());
  const Params p{data<int32_t>(a.documents), data<int32_t>(a.positions), N, T, launch.fault(), launch.op()};
  launch(unsigned((std::max(N, T) + 255) / 256), 256, 0, positions_of, p);
}

}  // namespace weft::cuda
