#include "weft/backends/metal/sim/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "weft/base/check.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace weft::metal::sim {

// A new stack is entered by a return, with the stack pointer as it is after a call.
#if defined(__x86_64__)
asm(R"(
.text
.globl weft_sim_switch_stack
.type weft_sim_switch_stack, @function
weft_sim_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weft_sim_switch_stack, . - weft_sim_switch_stack
)");
namespace {
constexpr size_t kSaved = 8;  // six registers, the return address, and one word that aligns the stack
constexpr size_t kReturnAddress = 6;
}  // namespace
#elif defined(__aarch64__)
asm(R"(
.text
.globl weft_sim_switch_stack
.type weft_sim_switch_stack, %function
weft_sim_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size weft_sim_switch_stack, . - weft_sim_switch_stack
)");
namespace {
constexpr size_t kSaved = 20;          // words that the switch pops
constexpr size_t kReturnAddress = 11;  // x30
}  // namespace
#else
#error "The Metal simulator has a stack switch for x86-64 and aarch64 only; build with -DWEFT_METAL_SIM=OFF"
#endif

Stacks::~Stacks() {
  if (memory_) munmap(memory_, size_t(count_) * kBytes);
}

void Stacks::reserve(int count) {
  if (memory_) munmap(memory_, size_t(count_) * kBytes);
  void* memory = mmap(nullptr, size_t(count) * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memory_ = memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
  count_ = memory_ ? count : 0;
  if (!memory_) fail(ErrorCode::out_of_memory, "metal-sim", "no memory for the stacks of ", count, " threads");
  for (int i = 0; i < count; ++i) mprotect(low(i), 4096, PROT_NONE);
}

void* Stacks::prepare(int i, void (*entry)()) const {
  // Stacks are a power of two apart: without an individual offset, their tops would map to the same few cache sets.
  const size_t shift = size_t(i) % 64 * 1088;
  void** top = reinterpret_cast<void**>(low(i) + kBytes - shift) - kSaved;
  std::memset(top, 0, kSaved * sizeof(void*));
  top[kReturnAddress] = reinterpret_cast<void*>(entry);
  return top;
}

#if defined(__x86_64__)
FlushToZero::FlushToZero(bool on) : saved_(_mm_getcsr()) {
  if (on) _mm_setcsr(unsigned(saved_) | 0x8040);
}
FlushToZero::~FlushToZero() { _mm_setcsr(unsigned(saved_)); }
#else
FlushToZero::FlushToZero(bool on) {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  if (on) asm volatile("msr fpcr, %0" : : "r"(saved_ | 1ul << 24));
}
FlushToZero::~FlushToZero() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }
#endif

}  // namespace weft::metal::sim
