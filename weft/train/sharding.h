// Who computes and who keeps what, where a step is shared by several ranks (weft/comm/communicator.h).
//
// Micro-batches: a rank computes an aligned run of them, a node of the gradient tree (weft/train/gradient_tree.h), so that the upper
// levels of the tree are a tree over the ranks. There must be a power of two w with ceil(n / w) = ranks; rank r then takes
// [r w, (r + 1) w), the last one what is left. With Sharding::gradients it takes r, r + ranks, r + 2 ranks, ...: a round is a node if
// there is one round, or if the ranks are a power of two.
//
// Parameters: they are grouped in buckets, in the optimizer's order. Each rank owns one range of every bucket, cut at multiples of 65536
// elements of a tensor, so that the pieces of the gradient norm stay whole. Nothing of this changes a bit of the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/comm/communicator.h"
#include "weft/nn/parameter.h"

namespace weft {

// The state that a rank keeps of its own range only.
enum class Sharding {
  none,       // nothing: every rank updates all weights
  optimizer,  // m, v and master weights (ZeRO-1, Rajbhandari et al., 2020)
  gradients,  // the sums of gradients as well (ZeRO-2)
};
Sharding sharding_from_name(std::string_view name);  // "none", "optimizer", "gradients"
std::string_view name(Sharding sharding);

// Of a parameter's elements, row-major.
struct Range {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  friend bool operator==(const Range&, const Range&) = default;
};

// A range of a contiguous tensor as a tensor of one axis, in the same memory, without history.
Tensor range_of(const Tensor& tensor, Range range);

// The micro-batches of one rank, ascending.
struct Share {
  std::vector<int64_t> micro_batches;
};
bool can_share(int64_t micro_batches, int ranks, Sharding sharding);
Share share_of(int64_t micro_batches, int rank, int ranks, Sharding sharding);
inline Share share_of(int64_t micro_batches, const Communicator& ranks, Sharding sharding) {
  return share_of(micro_batches, ranks.rank(), ranks.size(), sharding);
}

// The settings that decide the number of micro-batches. The error then names values of --batch and --pass-tokens that would do.
struct StepSize {
  int64_t batch = 1, accumulate = 1;
  int64_t sequence_tokens = 1;  // of one sequence
  int64_t pass_tokens = 2048;   // of a micro-batch, at most

  int64_t sequences_at_once() const;  // in a micro-batch
  int64_t micro_batches() const { return batch * accumulate / sequences_at_once(); }
};
Share share_of(const StepSize& step, const Communicator& ranks, Sharding sharding);

// The ranges of all parameters that each rank owns.
class ParameterShards {
 public:
  static constexpr int64_t kCut = 65536;                        // ranges start at multiples of this: two pieces of the gradient norm
  static constexpr int64_t kBucketElements = int64_t(1) << 20;  // a bucket closes when it has as many
  // With more than 16 ranks a bucket has kCut for each, else few of them would own and receive all of it.
  static int64_t bucket_elements(int ranks) { return std::max(kBucketElements, kCut * ranks); }

  // `whole`: parameters that are not cut (Muon's matrices). Empty: all may be.
  ParameterShards(const std::vector<Parameter>& parameters, const std::vector<bool>& whole, int ranks)
      : ParameterShards(parameters, whole, ranks, bucket_elements(ranks)) {}
  ParameterShards(const std::vector<Parameter>& parameters, const std::vector<bool>& whole, int ranks, int64_t bucket_elements);

  int ranks() const { return ranks_; }
  size_t parameters() const { return elements_.size(); }
  Range range(size_t parameter, int rank) const { return ranges_[parameter * size_t(ranks_) + size_t(rank)]; }
  std::vector<Range> of_rank(int rank) const;  // by parameter

  // The gradient norm adds the squares of pieces (weft/ops/gradient_squares). A rank lists those of its ranges parameter by parameter.
  size_t norm_pieces(int rank) const;
  // The lists of all ranks as the one list that one process would have.
  std::vector<float> in_order(const std::vector<std::vector<float>>& pieces) const;

  // Parameters [first, end), whose gradients travel together.
  struct Bucket {
    size_t first, end;
  };
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  void cut(size_t bucket, const std::vector<bool>& whole);

  int ranks_;
  std::vector<int64_t> elements_;  // by parameter
  std::vector<Bucket> buckets_;
  std::vector<Range> ranges_;  // by parameter and rank
};

}  // namespace weft
