// Rounds workspace that this thread allocates up to a power of two, as long as the object exists. For kernels whose workspace depends on
// data: the pool caches a block of every size it has seen, and powers of two keep that to one block each.
#pragma once

namespace weft {

class CoarseWorkspace {
 public:
  CoarseWorkspace();
  ~CoarseWorkspace();
  CoarseWorkspace(const CoarseWorkspace&) = delete;
  CoarseWorkspace& operator=(const CoarseWorkspace&) = delete;
};

}  // namespace weft
