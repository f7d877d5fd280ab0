// The ways to the logits of a position: training, evaluation, prompts, decoding. Each returns the bits of every position it computes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/models/model.h"
#include "weft/order/trace.h"

namespace weft::order {

// The logits of one position: the digest of their bits and the bits of cross_entropy's loss at the next token.
struct RowBits {
  uint32_t digest = 0, loss = 0;
  bool operator==(const RowBits&) const = default;
};
using PositionBits = std::vector<std::vector<std::optional<RowBits>>>;  // by sequence and position; empty: not computed

using Sequences = std::vector<std::vector<int32_t>>;

class Paths {
 public:
  enum class Training { gradients, recomputed, evaluation };

  // Both must outlive it.
  Paths(Model& model, const Sequences& sequences) : model_(model), sequences_(sequences) {}

  // Also tells this trace what each pass computes. Decoding then runs its launches one by one instead of replaying them.
  void trace(Trace* trace) { trace_ = trace; }

  // Sequences in an order and micro-batches drawn from `seed`, each of at most `tokens` tokens, padding included. Seed 0: in their own
  // order, as many as fit.
  PositionBits training(Training kind, int64_t tokens, uint64_t seed) const;
  // Every sequence as a prompt read whole, up to `batch` of them padded to one length: the last position of each.
  PositionBits prompts(int64_t batch, uint64_t seed) const;
  // Decodes up to `batch` sequences at a time; when one ends, another takes its place. A sequence starts with the prefix that it shares
  // with another one, in the same pages, and a prompt read in pieces of random lengths. The cache is resized at random.
  PositionBits decoding(int64_t batch, uint64_t seed) const;
  // One sequence alone.
  PositionBits decoding_alone(size_t sequence, uint64_t seed) const;

 private:
  PositionBits decode(const std::vector<size_t>& which, int64_t batch, uint64_t seed) const;
  void train(const std::vector<size_t>& batch, Training kind, PositionBits& rows) const;
  int32_t target(size_t sequence, int64_t position) const;
  void put(PositionBits& rows, const Tensor& logits, const std::vector<Place>& places) const;
  PositionBits none() const;
  void expect(const std::vector<Place>& places) const {
    if (trace_) trace_->expect(places);
  }
  friend class Decoder;

  Model& model_;
  const Sequences& sequences_;
  Trace* trace_ = nullptr;
};

}  // namespace weft::order
