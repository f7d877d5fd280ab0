// Pinned slots for uploads of small host data: each upload takes the next ones, and waits only if a slot's last copy has not run yet.
// With kSlots in flight the host is far ahead of the queue, so that wait costs nothing.
//
// Queue is CUDA, or a stand-in that tests the ring without a GPU:
//   queue.copy(to, from, bytes)   queues a copy out of a slot
//   queue.mark(slot)              after it
//   queue.wait(slot)              until the last mark of the slot was reached
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace weft::cuda {

template <class Queue>
class UploadRing {
 public:
  static constexpr int kSlots = 64;
  static constexpr int64_t kSlotBytes = int64_t(64) << 10;
  static constexpr int64_t kBytes = kSlots * kSlotBytes;
  static constexpr int64_t kMostUpload = kBytes / 4;  // larger ones would evict all other slots

  explicit UploadRing(Queue& queue) : queue_(queue) {}

  // `slots`: kBytes of pinned memory.
  void upload(char* slots, char* to, const char* from, int64_t bytes) {
    for (int64_t done = 0; done < bytes; done += kSlotBytes) {
      const int slot = next_;
      next_ = (next_ + 1) % kSlots;
      const int64_t piece = std::min(kSlotBytes, bytes - done);
      char* const place = slots + slot * kSlotBytes;
      if (marked_[size_t(slot)]) queue_.wait(slot);
      std::memcpy(place, from + done, size_t(piece));
      queue_.copy(to + done, place, piece);
      queue_.mark(slot);
      marked_[size_t(slot)] = true;
    }
  }

 private:
  Queue& queue_;
  int next_ = 0;
  std::array<bool, kSlots> marked_{};
};

}  // namespace weft::cuda
