// Low-rank adapters (Hu et al., 2021): a layer with a frozen weight W learns the product of two thin matrices,
//
//   y = x W^T + s (x A^T) B^T,   A [rank, in], B [out, rank],   s = alpha / rank
//
// A starts at random and B at zero, so training starts from the given model. Merged, the layer is W + s B A. In training, dropout
// may apply to the input of A, never to that of W.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/tensor/tensor.h"

namespace weft {

struct LoraOptions {
  int64_t rank = 8;
  double scale = 2;                  // s
  std::vector<std::string> targets;  // layers by name: "q_proj", "mlp.c_proj", a whole name; "all-linear": every one
  uint64_t seed = 0;                 // of A
  double dropout = 0;                // of the input of A, if the pass has a random state
  bool stored = false;               // read from a file: its rank may exceed the sizes of a layer, as in PEFT
};

// The two matrices of one layer; undefined: it has none.
struct LowRank {
  Tensor a, b;
  float scale = 0;
  double dropout = 0;
  uint32_t site = 0;  // of the random numbers

  explicit operator bool() const { return a.defined(); }
  // s (x A^T) B^T; `random`: the random state of the dropout (weft/ops/uniform); undefined: no dropout.
  Tensor operator()(const Tensor& x, const Tensor& random = {}) const;
};

struct LoraAdapter {
  std::string layer;  // "model.layers.0.self_attn.q_proj"; its weight has ".weight" after it
  LowRank matrices;
  bool transposed = false;  // the layer's weight is [in, out], as GPT-2's

  std::string a_name() const { return "base_model.model." + layer + ".lora_A.weight"; }  // as PEFT names them
  std::string b_name() const { return "base_model.model." + layer + ".lora_B.weight"; }
};

// Named adapters, for inference: in a pass each sequence uses one of several adapters, or none. It has the same bits as with a model that
// has only this adapter.

// Sequences [first, first + count) of a pass use the adapter of this number; -1: none.
struct AdapterRows {
  int adapter;
  int64_t first, count;
  bool operator==(const AdapterRows&) const = default;
};

// The adapters of a pass.
struct LoraUse {
  LoraUse() = default;
  LoraUse(const Tensor& random, std::span<const AdapterRows> rows = {}) : random(random), rows(rows) {}
  Tensor random;                      // a random state (weft/ops/uniform) for the dropout; undefined: no dropout
  std::span<const AdapterRows> rows;  // covers all sequences; empty: no named adapters
};

// The named adapters of one layer, by number; undefined for an adapter that does not change the layer.
struct NamedAdapters {
  std::string layer;
  int64_t in, out;
  bool transposed;
  std::vector<LowRank> adapters = {};

  const LowRank* of(int adapter) const {
    return adapter >= 0 && size_t(adapter) < adapters.size() && adapters[size_t(adapter)] ? &adapters[size_t(adapter)] : nullptr;
  }
  bool used_by(const LoraUse& lora) const {
    for (const AdapterRows& rows : lora.rows)
      if (of(rows.adapter)) return true;
    return false;
  }
};

// Matches as PEFT does: the whole name of a layer, or its end after a dot.
bool lora_target(std::string_view target, std::string_view layer);

// W + s B A in f32, in the layout of W.
Tensor merged(const Tensor& weight, const LoraAdapter& adapter);

}  // namespace weft
