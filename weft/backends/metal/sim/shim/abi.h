// The interface between a compiled kernel text and the simulator. Both include it, so it includes no other header.
#pragma once

namespace weft_sim {

inline constexpr int kVersion = 3;  // of this file: part of the cache's key
inline constexpr int kMostBuffers = 31;
inline constexpr int kLanes = 32;  // of a simdgroup

// A place in a kernel's source. As a default argument, Site::here() is the place of the call. Threads that arrived through different calls
// have a different `way`.
struct Site {
  const char* file;
  int line, column;
  unsigned long way = 0;
#ifdef __clang__
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE(), int column = __builtin_COLUMN()) {
    return {file, line, column};
  }
#endif
};

// The bindings of one dispatch; the same for all its threads.
struct Bindings {
  void* pointer[kMostBuffers];
  unsigned long bytes[kMostBuffers];
};

// One simulated thread: the source of a kernel's built-in parameters.
struct Thread {
  unsigned position_in_grid[3], position_in_group[3], group[3];
  unsigned group_size[3], groups[3], grid[3];
  unsigned index, lane, simdgroup, simdgroups;
  const Bindings* bindings;
  void* const* threadgroup;  // [[threadgroup(n)]]
  mutable void* frame;       // of the kernel's entry
};

// A simdgroup function: once all active lanes have arrived, one call gets the slots of all of them (null: not active).
using Combine = void (*)(void* const* slots, unsigned active);

enum Access : int { kRead = 0, kWrite = 1, kAtomic = 2 };  // kAtomic | kRead, kAtomic | kWrite

// Services of the simulator for a running kernel.
struct Runtime {
  void (*threadgroup_barrier)(unsigned memory_flags, Site site);
  void (*simdgroup_barrier)(unsigned memory_flags, Site site);
  void (*simd)(Combine combine, void* slot, const char* function, Site site);
  void* (*threadgroup_variable)(int index, const char* name, unsigned long bytes, unsigned long alignment, Site site);
  const Thread* (*self)();
  void (*multiply_adds)(unsigned count);
  void (*inactive)(unsigned lane, unsigned from);                                          // a lane reads one that is not active
  void (*spin)();                                                                          // before every atomic operation
  void (*fail)(const char* what, Site site);                                               // does not return
  void (*access)(const void* address, unsigned long bytes, int access, const void* code);  // instrumented builds only
  unsigned matrix_order;                                                                   // of sums in a simdgroup_matrix (matrix.h)
};

// A kernel's parameter, as found by the rewriter.
struct Parameter {
  enum Kind : int { buffer, threadgroup, builtin };
  int kind, index;
  const char* name;
};

struct Kernel {
  const char* name;
  void (*entry)(const Thread*);
  const Parameter* parameters;
  int parameter_count;
  int most_threads;              // [[max_total_threads_per_threadgroup(n)]]; 0: not given
  const char* const* constants;  // names of the function constants it may need, ended by null
};

struct FunctionConstant {
  const char* name;
  int index;
  void* value;
  int type;  // as metal::Constant::Type counts them; -1: another
  bool* defined;
};

struct Module {
  int version;
  const Kernel* kernels;
  int kernel_count;
  const FunctionConstant* constants;
  int constant_count;
  int variable_count;       // threadgroup variables in the whole text
  const Runtime** runtime;  // to be set before anything runs
  void (*initialize)();     // of constants that depend on function constants; after those are set
};

}  // namespace weft_sim
