// Runs threadgroups, one after another, on the calling thread.
//
// Every simulated thread has a stack; they take turns. A thread runs until it waits at a barrier or in a simdgroup function, then the next
// ready one continues. When none is ready, either all wait at one barrier, which then opens, or lanes of a simdgroup have diverged: then
// those at the earliest place in the source continue without the others.
//
// A stack whose thread has ended runs the next thread that has not started, so a kernel without barriers needs one stack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/backends/metal/sim/arena.h"
#include "weft/backends/metal/sim/fiber.h"
#include "weft/backends/metal/sim/dispatch_run.h"
#include "weft/backends/metal/sim/shadow.h"
#include "weft/backends/metal/sim/shim/abi.h"
#include "weft/tile/metal/seam.h"

namespace weft::metal::sim {

class Threadgroup {
 public:
  Threadgroup();
  Threadgroup(const Threadgroup&) = delete;
  Threadgroup& operator=(const Threadgroup&) = delete;

  // Runs the group of that index in the launch's grid. Faults are reported to the launch.
  void run(DispatchRun& launch, uint64_t index);

  // Counts since the last call: threads, barriers and memory traffic.
  Counters take_counters();

  // Called by the running kernel (runtime.cpp).
  void threadgroup_barrier(unsigned memory_flags, weft_sim::Site site);
  void simdgroup_barrier(unsigned memory_flags, weft_sim::Site site);
  void simd(weft_sim::Combine combine, void* slot, const char* function, weft_sim::Site site);
  void* threadgroup_variable(int index, const char* name, uint64_t bytes, uint64_t alignment, weft_sim::Site site);
  const weft_sim::Thread* self() const { return &current_->info; }
  void multiply_adds(unsigned count) { counters_.matrix_multiply_adds += count; }
  void inactive(unsigned lane, unsigned from);
  void spin();
  void access(const void* address, uint64_t bytes, int access, const void* code);
  [[noreturn]] void fail_at(const std::string& what, weft_sim::Site site);

 private:
  enum class State : uint8_t { fresh, ready, at_barrier, in_simdgroup, done };
  struct SimThread {
    weft_sim::Thread info;
    State state;
    int stack;
    void* stack_pointer;
    weft_sim::Site site;  // where it waits
    unsigned memory_flags;
    weft_sim::Combine combine;
    const char* function;
    void* slot;
    unsigned leads;  // lanes that this one must release when it continues
    Toucher toucher;
  };
  struct Simdgroup {
    int first, count, waiting, done;
  };
  struct Variable {
    char* pointer = nullptr;
    uint64_t bytes = 0;
    const char* name = "";
  };

  void begin(DispatchRun& launch, uint64_t index);
  void begin_threads(uint64_t index);
  uint64_t gap() const;
  char* allocate(uint64_t bytes, uint64_t alignment, const char* name);
  bool is_private(const char* address) const;
  void count(const char* address, uint64_t bytes, bool writes);
  [[noreturn]] void abandon();
  void reset_stacks(int count);

  static void stack_main();
  void resume(SimThread& thread, void** from);
  void wait();    // suspends the current thread
  void finish();  // ends the current thread
  void push(int thread) { queue_[queue_end_++ % queue_.size()] = uint16_t(thread); }
  int pop() { return queue_[queue_begin_++ % queue_.size()]; }
  bool anyone_ready() const { return queue_begin_ != queue_end_; }

  bool unblock();  // called when no thread is ready; false if all have ended
  bool open_barrier();
  void part_lanes();
  bool try_release(Simdgroup& simdgroup);
  void release(Simdgroup& simdgroup, unsigned lanes);

  void report(const SimThread& thread, const std::string& what);
  std::string who(const SimThread& thread) const;
  uint64_t random();

  static constexpr uint64_t kRedZone = 64;  // around every threadgroup variable

  DispatchRun* launch_ = nullptr;
  std::vector<SimThread> threads_;
  std::vector<Simdgroup> simdgroups_;
  std::vector<uint16_t> queue_, order_;
  size_t queue_begin_ = 0, queue_end_ = 0;
  int count_ = 0, at_barrier_ = 0, done_ = 0;
  SimThread* current_ = nullptr;
  bool aborted_ = false, combining_ = false;
  uint64_t spins_ = 0, random_ = 1;

  Stacks stacks_;
  std::vector<void*> stack_pointers_;
  std::vector<int> idle_stacks_;
  void* scheduler_ = nullptr;

  Arena arena_;
  uint64_t arena_used_ = 0, threadgroup_used_ = 0;
  std::vector<Variable> variables_;
  void* dynamic_[1] = {};
  Counters counters_;
};

}  // namespace weft::metal::sim
