// A caching allocator over a backend's raw memory: freed blocks are kept by size class and handed out again, so a
// training step allocates nothing from the system after its first pass.
//
// Checked pools fill every block they hand out with a poison pattern (a NaN in every float type) and put guard bytes
// on both sides, verified when the block comes back and by verify(). Nothing uninitialised leaks out unseen.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "weft/device/buffer.h"

namespace weft {

// What a backend gives the pool to work with. Called with the pool's lock held.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* obtain(int64_t bytes) = 0;  // nullptr when there is no room
  virtual void give_back(void* handle, int64_t bytes) = 0;
  virtual void fill(void* handle, int64_t offset, uint8_t value, int64_t bytes) = 0;
  virtual void read(void* handle, int64_t offset, void* host, int64_t bytes) = 0;
};

struct PoolStats {
  int64_t in_use = 0;      // bytes of live buffers, rounded to their size class
  int64_t high_water = 0;  // the most in_use has been
  int64_t reserved = 0;    // obtained from the source: in use or cached
  int64_t live = 0;        // buffers
};

class Pool {
 public:
  static constexpr uint8_t kPoison = 0xff;  // all ones: NaN in f32, bf16 and f16, an id out of any range
  static constexpr uint8_t kGuard = 0xa5;
  static constexpr int64_t kGuardBytes = 256;  // also the alignment of every block

  // `limit` bounds the reserved bytes; 0 means whatever the source can give.
  Pool(MemorySource& source, bool checked, int64_t limit) : source_(source), checked_(checked), limit_(limit) {}
  ~Pool();

  Block allocate(int64_t bytes);  // throws out_of_memory saying what was asked, what is free, the largest block
  void release(const Block& block) noexcept;
  void trim();  // gives every cached block back to the source

  // Throws when a live or formerly live block had its guard bytes overwritten. Checked pools only.
  void verify();

  bool checked() const { return checked_; }
  PoolStats stats() const;
  void reset_high_water();

 private:
  static int64_t size_class(int64_t bytes);
  void trim_locked();
  void arm(const Block& block);
  bool guards_intact(const Block& block);

  MemorySource& source_;
  const bool checked_;
  const int64_t limit_;
  mutable std::mutex mutex_;
  std::map<int64_t, std::vector<void*>> free_;  // by capacity
  std::map<void*, Block> live_;                 // checked pools only
  int64_t overruns_ = 0;
  PoolStats stats_;
};

}  // namespace weft
