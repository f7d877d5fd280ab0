// Cross entropy of logits against target ids, with its gradient in the same launch. Over the rows whose target t is
// not pad_id, V = the length of a row:
//
//   loss = sum (lse - x_t) / count          lse = m + log sum_j exp(x_j - m),  m = max_j x_j
//   dlogits_j = (softmax(x)_j - [j = t]) / count
//
// count is the number of those rows, or the value of `count`. A padded row gives no loss and a row of zeros; where all
// are padded the loss is 0. A logit of -infinity has probability 0. A target that is neither pad_id nor in [0, V) is a
// fault, found before anything is written. logits are f32 or bf16, dlogits the same or bf16; sums and loss are f32.
//
// One row's loss, -log p_t, is what the library calls a log-probability, negated (docs/numerics.md): logits of a model are f32, and
//
//   log p_j = -((maxima - x_j) + log_sums)          maxima = m,  log_sums = log sum_j exp(x_j - m)
//
// has the same bits on the host and on the device, for it has no product. The order of the sum depends on V and the dtype of the
// logits alone: not on the number of rows, on which outputs are wanted, on the gradient's dtype or on the alignment of rows.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct CrossEntropyArgs {
  static constexpr const char* kOp = "cross_entropy";
  View logits, targets;
  MutView dlogits = {};  // may be the memory of the logits where the dtype is theirs: then they are overwritten. Absent: the loss alone
  MutView loss;
  // Per row, each absent unless wanted; 0 in a padded row. losses: -log p_t. digests: of the bits of the row's logits (digest_term.h), to
  // compare logits to the bit where they are too many to leave the device: different rows have equal digests with a chance of 2^-32.
  MutView losses = {}, maxima = {}, log_sums = {}, digests = {};
  View count = {};          // the divisor, for a batch that is split into several launches. Absent: see above
  int64_t pad_id = -1;      // -1: no target is padding
  bool accumulate = false;  // loss += instead of loss =

  static constexpr auto operands() {
    using namespace operand;
    using A = CrossEntropyArgs;
    return std::array{in("logits", &A::logits, "... V", kFloats).rows(),
                      in("targets", &A::targets, "...", kIds),
                      out("dlogits", &A::dlogits, "... V", like("logits", DType::bf16)).rows().optional(),
                      out("loss", &A::loss, "1", DType::f32),
                      in("count", &A::count, "1", DType::f32).optional(),
                      out("losses", &A::losses, "...", DType::f32).optional(),
                      out("maxima", &A::maxima, "...", DType::f32).optional(),
                      out("log_sums", &A::log_sums, "...", DType::f32).optional(),
                      out("digests", &A::digests, "...", DType::u32).optional()};
  }
};

// A checked launch into memory the caller owns.
void cross_entropy(Stream& stream, const CrossEntropyArgs& args);
// Maximum, difference, exponential and sum; with a gradient an exponential and a product more.
inline Cost cost(const CrossEntropyArgs& a) { return {operand_bytes(a), (a.dlogits ? 7.0 : 4.0) * double(a.logits.numel())}; }

struct CrossEntropyOptions {
  int64_t pad_id = -1;  // -1: no target is padding
  Tensor count = {};    // undefined: the number of targets that are not padding
  Tensor losses = {};   // written, if defined: the loss of each row, f32 of the targets' shape
  Tensor digests = {};  // written, if defined: the digest of each row, u32 of the targets' shape
};

// The loss, a device scalar. Where logits want a gradient it is computed now, so that the logits are read once from
// memory and need not be kept.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

// The terms of log p_j = -((maxima - x_j) + log_sums) of each row of logits [..., V], f32 [...].
struct LogProbabilityTerms {
  Tensor maxima, log_sums;
};
LogProbabilityTerms log_probability_terms(const Tensor& logits);
inline float log_probability(float logit, float maximum, float log_sum) { return -((maximum - logit) + log_sum); }

// The loss, and its gradient in the memory of the logits: a head over a large vocabulary then needs one such matrix
// instead of two. The logits' values are gone afterwards; nothing is recorded, so logits must not want a gradient.
struct CrossEntropyGradient {
  Tensor loss, dlogits;
};
CrossEntropyGradient cross_entropy_in_place(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

}  // namespace weft
