#include "weft/backends/metal/sim/runtime.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "weft/backends/metal/sim/threadgroup.h"
#include "weft/base/check.h"

namespace weft::metal::sim {
namespace {

thread_local Threadgroup* running = nullptr;

// WEFT_METAL_SIM_MATRIX_ORDER: the seed of the order within a simdgroup_matrix (shim/matrix.h); not set: k ascends.
unsigned matrix_order() {
  const char* name = "WEFT_METAL_SIM_MATRIX_ORDER";
  const char* value = std::getenv(name);
  if (!value || !*value) return 0;
  const std::string_view text = value;
  unsigned seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  check(error == std::errc() && end == text.data() + text.size(), "metal-sim", name, " is '", text, "', expected a number from 0 to ", ~0u);
  return seed;
}

weft_sim::Runtime make_runtime() {
  return {
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
      .matrix_order = matrix_order(),
  };
}

}  // namespace

const weft_sim::Runtime& runtime() {
  static const weft_sim::Runtime made = make_runtime();
  return made;
}

RunningThreadgroup::RunningThreadgroup(Threadgroup* group) { running = group; }
RunningThreadgroup::~RunningThreadgroup() { running = nullptr; }

}  // namespace weft::metal::sim
