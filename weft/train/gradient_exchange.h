// Gradients and weights between ranks: every rank receives the others' gradients of the range it owns, adds them, and after the update
// sends its new weights to all others.
//
// The sum over ranks is the upper part of the gradient tree (weft/train/gradient_tree.h), a binary tree over the rank, element by element
// in f32: sum(0..7) = ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)). Its bits depend on neither the order in which messages arrive nor on
// how parameters are cut.
//
// A bucket of parameters leaves as soon as its gradients are final, while backward() goes on to earlier layers. A gradient is final
// when as many additions have reached it as in the first pass, which counts them: there all buckets leave at the end. Buckets leave in
// descending order on every rank. A bucket travels in parcels of bounded size, of which few are under way at once: buffers take
// 16 MiB, or 1 MiB for each of more than 16 ranks, whatever the model (on CUDA 256 MiB at most: weft/train/shared_step.cpp).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "weft/autograd/leaf_watch.h"
#include "weft/comm/communicator.h"
#include "weft/train/optimizer.h"
#include "weft/train/sharding.h"

namespace weft {

class GradientExchange : private LeafWatch {
 public:
  // `parcel_elements`: of all ranks together, at most.
  GradientExchange(Communicator& ranks, const Optimizer& optimizer, const ParameterShards& shards, int64_t parcel_elements);

  // The sums go into these tensors instead, one for each parameter and of the size of this rank's range (undefined: an empty one). A
  // gradient is allocated when it is needed and released when it has travelled.
  void release_gradients(std::vector<Tensor> sums);

  // Runs a backward pass whose gradients stay here.
  void watch(const std::function<void()>& backward);
  // Runs a backward pass (empty: this rank has none) and sums its gradients over the ranks below `senders`. The range that this rank
  // owns is then complete. `complete(i)` is called once for each parameter before its gradient leaves.
  void sum(const std::function<void()>& backward, int senders, const std::function<void(size_t)>& complete);

  // Every rank gets the ranges that the others own.
  void gather_gradients();
  void gather_weights();

  // Additions to each parameter's gradient in one backward pass. Empty: not known yet.
  const std::vector<int>& additions() const { return expected_; }
  void set_additions(std::vector<int> additions);

 private:
  struct Part {
    size_t parameter;
    Range range;
  };
  struct Parcel {
    size_t bucket;
    int64_t first;  // element of each rank's range of the bucket
    bool last;      // of its bucket
  };
  struct UnderWay {
    Parcel parcel;
    std::vector<Tensor> received;  // by rank; undefined: nothing
    std::unique_ptr<Transfer> transfer;
  };

  void before_addition(const Node& leaf) override;
  void added(const Node& leaf) override;
  void begin();
  void remember_additions();
  void leave(size_t bucket);
  void start(const Parcel& parcel);
  void finish_first();
  Tensor sum_of_ranks(std::vector<Tensor>& values) const;
  void gather(const std::function<Tensor(size_t)>& tensor);
  std::vector<Parcel> parcels_of(size_t bucket) const;
  std::vector<Part> parts(const Parcel& parcel, int rank) const;

  Communicator& ranks_;
  const std::vector<Parameter>& parameters_;
  const ParameterShards& shards_;
  int64_t elements_;                               // of a parcel, in each rank's range
  std::vector<Tensor> sums_;                       // empty: sums stay in the gradients
  std::unordered_map<const Node*, size_t> index_;  // of a parameter
  std::vector<size_t> bucket_of_;                  // a parameter

  std::vector<int> expected_, seen_;  // additions by parameter: in a whole pass, in this one
  std::vector<size_t> missing_;       // by bucket: gradients that are not final
  size_t left_ = 0;                   // buckets that have not left
  bool sends_ = false;                // this pass's gradients travel
  int senders_ = 0;
  std::function<void(size_t)> complete_;
  std::deque<UnderWay> under_way_;
};

}  // namespace weft
