// Stacks and the switch between them: simulated threads take turns on one thread of the system.
//
// A switch saves the registers that a function must preserve and changes the stack pointer: about ten instructions. Nothing
// may be thrown from one stack to another.
#pragma once

#include <cstddef>

namespace weft::metal::sim {

// Leaves the stack we run on, saving where it stands in *from, and goes on where `to` stood.
extern "C" void weft_sim_switch_stack(void** from, void* to);

// The stacks of one worker, each with an inaccessible page below it.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  static constexpr size_t kBytes = 256 << 10;  // of one; only what is touched takes memory

  void reserve(int count);  // keeps none of those it had
  int count() const { return count_; }
  char* low(int i) const { return memory_ + size_t(i) * kBytes; }
  // A stack that calls `entry` the first time it is switched to; entry must not return.
  void* prepare(int i, void (*entry)()) const;

 private:
  char* memory_ = nullptr;
  int count_ = 0;
};

// The processor's mode in which results and operands too small for a normal number are zero.
class FlushToZero {
 public:
  explicit FlushToZero(bool on);
  ~FlushToZero();
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
  unsigned long saved_;
};

}  // namespace weft::metal::sim
