// A caching allocator over a backend's raw memory: freed blocks are kept by size class and handed out again, so a
// training step allocates nothing from the system after its first pass.
//
// Bytes are counted by capacity: a request rounded up to its size class, guards excluded. The same sequence of
// requests gives the same figures on every run.
//
// Checked pools fill every block they hand out with a poison pattern (a NaN in every float type) and put guard bytes
// on both sides, verified when the block is released and by verify(). Reads of uninitialised memory give NaN.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/device/buffer.h"
#include "weft/device/memory_use.h"

namespace weft {

// A backend's raw memory, as the pool sees it. Called with the pool's lock held.
class MemorySource {
 public:
  struct Room {
    int64_t free = -1, largest = -1;  // bytes in all, and in one block; -1: unknown
    std::string_view limit = {};      // what bounds them, in words; empty: the device's memory
  };

  virtual ~MemorySource() = default;
  virtual Room room() { return {}; }        // called when obtain() returned none
  virtual void* obtain(int64_t bytes) = 0;  // nullptr when there is no room
  virtual void give_back(void* handle, int64_t bytes) = 0;

  // Memory behind all blocks: whole pages, and on a host only those that were written to. -1: as many bytes as were obtained.
  virtual int64_t held() const { return -1; }
  // The first `used` bytes of a block of `bytes` are about to be written to.
  virtual void touch(void* /*handle*/, int64_t /*bytes*/, int64_t /*used*/) {}

  virtual void fill(void* handle, int64_t offset, uint8_t value, int64_t bytes) = 0;
  virtual void read(void* handle, int64_t offset, void* host, int64_t bytes) = 0;
};

struct UseStats {
  int64_t in_use = 0;      // bytes of live buffers of this use
  int64_t high_water = 0;  // the most so far
  int64_t at_peak = 0;     // in_use when the whole pool was at its high water: these add up to it
};

struct PoolStats {
  int64_t in_use = 0;           // bytes of live buffers
  int64_t high_water = 0;       // the most in_use has been
  int64_t reserved = 0;         // obtained from the source: in use or cached
  int64_t held = 0;             // memory behind the blocks obtained (MemorySource::held)
  int64_t held_high_water = 0;  // the most so far: the memory of the process, cached blocks included
  int64_t live = 0;             // buffers
  std::array<UseStats, kMemoryUses> uses{};

  const UseStats& of(MemoryUse use) const { return uses[size_t(use)]; }
};

class Pool {
 public:
  static constexpr uint8_t kPoison = 0xff;  // all ones: NaN in f32, bf16 and f16, an id out of any range
  static constexpr uint8_t kGuard = 0xa5;
  static constexpr int64_t kGuardBytes = 256;  // also the alignment of every block

  // `limit` bounds the reserved bytes; 0: no limit but the source.
  Pool(MemorySource& source, bool checked, int64_t limit);
  ~Pool();

  Block allocate(int64_t bytes) { return allocate(bytes, use_); }  // counted as the use of the innermost MemoryScope
  // Throws out_of_memory with the bytes requested, the bytes free and the largest block.
  Block allocate(int64_t bytes, MemoryUse use);
  void release(const Block& block) noexcept;
  void recount(Block& block, MemoryUse use);  // changes the use a live block counts as
  void trim();                                // returns every cached block to the source, except reserved ones

  // Between begin and end (one reservation at a time) every block that is allocated or released belongs to the reservation:
  // it is not handed out again before unreserve(). For the memory of a captured graph. Nothing is trimmed meanwhile.
  int64_t begin_reservation();
  void end_reservation();
  void unreserve(int64_t reservation);

  // Throws when a live or formerly live block had its guard bytes overwritten. Checked pools only.
  void verify();

  bool checked() const { return checked_; }
  PoolStats stats() const;
  void reset_high_water();  // of the pool and of every use, to the bytes in use and held now

  MemoryUse use() const { return use_; }
  void set_use(MemoryUse use) { use_ = use; }  // MemoryScope's

 private:
  std::vector<void*>& cached_locked(size_t size_class);
  std::vector<void*>& home_locked(const Block& block);
  void* obtain_locked(int64_t bytes, int64_t total);
  [[noreturn]] void refuse_locked(int64_t bytes);
  void count_locked(const Block& block);
  void trim_locked();
  void measure_locked();
  void arm(const Block& block);
  bool guards_intact(const Block& block);
  int64_t total(int64_t capacity) const { return capacity + (checked_ ? 2 * kGuardBytes : 0); }

  MemorySource& source_;
  const bool checked_;
  const int64_t limit_;
  MemoryUse use_ = MemoryUse::activations;
  mutable std::mutex mutex_;
  std::vector<std::vector<void*>> free_;                                    // by size class
  std::unordered_map<void*, int64_t> reserved_;                             // the reservation of a block
  std::map<std::pair<int64_t, size_t>, std::vector<void*>> reserved_free_;  // by reservation and size class
  int64_t reservation_ = 0, reservations_ = 0;                              // the open one (0: none), and how many there were
  std::map<void*, Block> live_;                                             // checked pools only
  int64_t overruns_ = 0;
  PoolStats stats_;
};

}  // namespace weft
