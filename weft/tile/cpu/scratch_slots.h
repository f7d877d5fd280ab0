// Workspace for tasks: as many equal slots as there are threads; a task holds one while it runs. Results must not depend on which slot a
// task got, nor on its contents.
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <vector>

#include "weft/tile/cpu/kernel.h"

namespace weft::cpu {

class ScratchSlots {
 public:
  ScratchSlots(const Stream& stream, int64_t floats, int64_t tasks = INT64_MAX)
      : floats_(ceil_div(floats, 16) * 16),
        taken_(size_t(std::max<int64_t>(1, std::min<int64_t>(threads(stream), tasks)))),
        memory_(stream, floats_ * int64_t(taken_.size())) {}

  size_t size() const { return taken_.size(); }

  // Hands out pieces of one slot, in order.
  class Lease {
   public:
    explicit Lease(ScratchSlots& slots) : slots_(slots) {
      while (slots_.taken_[slot_].test_and_set(std::memory_order_acquire)) slot_ = (slot_ + 1) % slots_.taken_.size();
      next_ = slots_.memory_.data() + int64_t(slot_) * slots_.floats_;
      end_ = next_ + slots_.floats_;
    }
    ~Lease() { slots_.taken_[slot_].clear(std::memory_order_release); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    size_t slot() const { return slot_; }
    float* take(int64_t floats) {
      float* piece = next_;
      next_ += floats;
      assert(next_ <= end_);
      return piece;
    }

   private:
    ScratchSlots& slots_;
    size_t slot_ = 0;
    float *next_, *end_;
  };

 private:
  int64_t floats_;
  std::vector<std::atomic_flag> taken_;
  Scratch<float> memory_;
};

}  // namespace weft::cpu
