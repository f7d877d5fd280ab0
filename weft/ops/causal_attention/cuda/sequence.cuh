// Options of attention as its kernels take them, and the sequence that a block works on: a whole one of the batch, or a document.
//
// The host does not know the lengths of documents. Document d of n has the slots from floor(documents[d] / tile) + d on, one for each
// of its tiles; slots without a tile remain between documents. There are floor(T / tile) + n slots, and a block finds its document by
// binary search.
#pragma once

#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/heads.cuh"

namespace weft::cuda {

// Kernels are compiled twice: plain (kOptions = false), which ignores all of this, and with options.
struct AttentionRule {
  const int32_t* documents = nullptr;  // cumulative lengths; absent: one document a sequence
  const int* count = nullptr;          // of documents up to the last token; 0 if their lengths are not cumulative: then there is no work
  int window = 0;                      // keys that a query attends to, up to its own; T: all
  float soft_cap = 0;                  // 0: none
  float cap_scale = 0;                 // scale / soft_cap

  // Tiles of kKeys keys before this one are outside the window of every query from m0 on.
  template <bool kOptions, int kKeys>
  __device__ __forceinline__ int first_key_tile(int m0) const {
    return kOptions ? max(0, m0 - window + 1) / kKeys : 0;
  }
  // Whether a window excludes the key n0 from the query m, or from one before it that is in the same tile.
  template <bool kOptions>
  __device__ __forceinline__ bool window_cuts(int m, int n0) const {
    return kOptions && n0 <= m - window;
  }
  template <bool kOptions>
  __device__ __forceinline__ bool capped() const {
    return kOptions && soft_cap > 0;
  }
  // The factor from the scores that a kernel keeps to s: they are q . k, or s itself if there is a soft cap.
  template <bool kOptions>
  __device__ __forceinline__ float score_scale(float scale) const {
    return capped<kOptions>() ? 1.0f : scale;
  }
  // s = cap tanh(scale q . k / cap) as cap times this; its derivative is 1 - tanh^2.
  __device__ __forceinline__ float capped_ratio(float product) const { return tanhf(product * cap_scale); }
  __device__ __forceinline__ float cap(float product) const { return soft_cap * capped_ratio(product); }
};

// A tile of a sequence. Queries and keys are counted from the sequence's first token, which is token `first` of b.
struct SequenceTile {
  int b, first, length, tile;
  int number;  // of the sequence: the document, or b

  template <class T>
  __device__ __forceinline__ Heads<T> from_first(Heads<T> heads) const {
    heads.at += first * heads.time;
    return heads;
  }
};

// The tile of a slot among those of b; its first token is not in the sequence if the slot has none.
template <bool kOptions, int kTile>
__device__ __forceinline__ SequenceTile tile_of_slot(const AttentionRule& rule, int slot, int b, int T) {
  if constexpr (kOptions)
    if (rule.documents) {
      int d = 0, past = *rule.count;  // the document is in [d, past)
      if (past == 0 || slot >= T / kTile + past) return {b, 0, 0, 0, 0};
      while (past - d > 1) {
        const int middle = (d + past) / 2;
        (rule.documents[middle] / kTile + middle <= slot ? d : past) = middle;
      }
      const int first = rule.documents[d];
      return {b, first, rule.documents[d + 1] - first, slot - first / kTile - d, d};
    }
  return {b, 0, T, slot, b};
}

}  // namespace weft::cuda
