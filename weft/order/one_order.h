// The promise of one order of sums (docs/numerics.md), checked: the logits of a position given its prefix have one set of bits, whether
// they come from a training forward pass, evaluation, a prompt read whole or in pieces, or decoding, alone or in a batch.
//
// The bits of a position are the digest of its logits' bits and the loss at the next token (weft/ops/cross_entropy), both computed on the
// device. Sequences of random tokens and lengths are compared in groups, so that memory does not grow with the number of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/models/model.h"

namespace weft {

struct OneOrderOptions {
  int64_t tokens = 20000;      // positions that decoding in batches computes, at least
  int64_t batch = 8;           // most sequences decoded at once
  int64_t length = 0;          // tokens of the longest sequence; 0: the model's context, at most 160
  int64_t pass_tokens = 8192;  // most tokens of a training pass
  uint64_t seed = 0;
};

struct OrderDifference {
  std::string path;  // "decoding in batches"
  int64_t positions = 0, of = 0;
  std::string first = {};  // where it begins: "sequence 3, position 7: layer 1, attention"
};

struct OneOrderReport {
  int64_t positions = 0;  // compared with those of training, by decoding in batches
  uint64_t digest = 0;    // of the bits of all positions in training: two processes compare theirs
  std::vector<OrderDifference> differences;
};

// If the model is not trainable (int8 weights), evaluation is the reference. Stops after the first group with a difference.
OneOrderReport check_one_order(Model& model, const OneOrderOptions& options = {});

}  // namespace weft
