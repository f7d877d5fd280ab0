// Observing the gradients of leaves while backward() adds to them, also inside recompute(). Used to send a gradient to other ranks as
// soon as it is final (weft/train/gradient_exchange.h). Costs nothing without an observer.
#pragma once

#include "weft/tensor/node.h"

namespace weft {

class LeafWatch {
 public:
  LeafWatch(const LeafWatch&) = delete;
  LeafWatch& operator=(const LeafWatch&) = delete;

  // Called ahead of an addition to the leaf's gradient, which may be allocated here.
  virtual void before_addition(const Node& leaf) = 0;
  // Called after each addition: once for every use of the leaf in the computation.
  virtual void added(const Node& leaf) = 0;

 protected:
  LeafWatch() = default;
  ~LeafWatch() = default;
};

// Shows what this thread's backward() does to `watch` while it lives. They do not nest.
class WatchLeaves {
 public:
  explicit WatchLeaves(LeafWatch& watch);
  ~WatchLeaves();
  WatchLeaves(const WatchLeaves&) = delete;
  WatchLeaves& operator=(const WatchLeaves&) = delete;
};

LeafWatch* leaf_watch();  // of this thread; null: none

}  // namespace weft
