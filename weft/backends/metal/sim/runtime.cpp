#include "weft/backends/metal/sim/runtime.h"

#include "weft/backends/metal/sim/threadgroup.h"

namespace weft::metal::sim {
namespace {

thread_local Threadgroup* running = nullptr;

constexpr weft_sim::Runtime kRuntime{
    .threadgroup_barrier = [](unsigned flags, weft_sim::Site site) { running->threadgroup_barrier(flags, site); },
    .simdgroup_barrier = [](unsigned flags, weft_sim::Site site) { running->simdgroup_barrier(flags, site); },
    .simd = [](weft_sim::Combine combine, void* slot, const char* function,
               weft_sim::Site site) { running->simd(combine, slot, function, site); },
    .threadgroup_variable = [](int index, const char* name, unsigned long bytes, unsigned long alignment,
                               weft_sim::Site site) { return running->threadgroup_variable(index, name, bytes, alignment, site); },
    .self = [] { return running->self(); },
    .multiply_adds = [](unsigned count) { running->multiply_adds(count); },
    .inactive = [](unsigned lane, unsigned from) { running->inactive(lane, from); },
    .spin = [] { running->spin(); },
    .fail = [](const char* what, weft_sim::Site site) { running->fail_at(what, site); },
    .access =
        [](const void* address, unsigned long bytes, int access, const void* code) {
          if (running) running->access(address, bytes, access, code);  // constants are also set while no group runs
        },
};

}  // namespace

const weft_sim::Runtime& runtime() { return kRuntime; }

RunningThreadgroup::RunningThreadgroup(Threadgroup* group) { running = group; }
RunningThreadgroup::~RunningThreadgroup() { running = nullptr; }

}  // namespace weft::metal::sim
