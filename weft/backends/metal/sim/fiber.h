// Stacks and the switch between them: simulated threads take turns on one OS thread.
//
// A switch saves the callee-saved registers and changes the stack pointer: about ten instructions. Exceptions must not cross stacks.
#pragma once

#include <cstddef>

namespace weft::metal::sim {

// Saves the current stack pointer in *from and continues on the stack `to`.
extern "C" void weft_sim_switch_stack(void** from, void* to);

// The stacks of one worker, each with a guard page below it.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  static constexpr size_t kBytes = 256 << 10;  // per stack; only touched pages use memory

  void reserve(int count);  // discards existing stacks
  int count() const { return count_; }
  char* low(int i) const { return memory_ + size_t(i) * kBytes; }
  // Prepares a stack that calls `entry` at the first switch to it; entry must not return.
  void* prepare(int i, void (*entry)()) const;

 private:
  char* memory_ = nullptr;
  int count_ = 0;
};

// Sets the processor's flush-to-zero mode: subnormal results and operands are zero.
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
