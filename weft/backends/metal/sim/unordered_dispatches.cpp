#include "weft/backends/metal/sim/unordered_dispatches.h"

#include <algorithm>
#include <utility>

#include "weft/backends/metal/sim/staging.h"
#include "weft/base/check.h"

namespace weft::metal::sim {
namespace {

// The first pair, in order of address, in which one side writes what the other accesses.
std::pair<const Touched*, const Touched*> conflict(const std::vector<Touched>& before, const std::vector<Touched>& now) {
  for (auto a = before.begin(), b = now.begin(); a != before.end() && b != now.end();) {
    if ((a->written || b->written) && a->begin < b->end && b->begin < a->end) return {&*a, &*b};
    if (a->end <= b->end)
      ++a;
    else
      ++b;
  }
  return {};
}

// The binding through which a launch accessed this byte.
std::string binding_of(const DispatchRun& launch, const char* address) {
  for (int i = 0; i < weft_sim::kMostBuffers; ++i) {
    const auto* begin = static_cast<const char*>(launch.bindings.pointer[i]);
    if (begin && address >= begin && address < begin + launch.bindings.bytes[i])
      return join("'", name_of(*launch.kernel, i), "', byte ", address - begin);
  }
  return "an unknown binding";
}

}  // namespace

std::string UnorderedDispatches::add(const std::shared_ptr<const DispatchRun>& launch, std::vector<Touched> touched) {
  earlier_.push_back({launch, std::move(touched)});
  const Done& now = earlier_.back();
  for (const Done& before : earlier_) {
    if (&before == &now) break;
    if (const auto [did, does] = conflict(before.touched, now.touched); did) return describe(before, *did, now, *does);
  }
  return "";
}

std::string UnorderedDispatches::describe(const Done& before, const Touched& did, const Done& now, const Touched& does) {
  const char* address = std::max(did.begin, does.begin);
  const auto part = [address](const Done& done, const Touched& touched) {
    return join("kernel '", done.launch->kernel->name, "' of ", done.launch->op, touched.written ? " writes " : " reads ",
                binding_of(*done.launch, address), ", at ", done.launch->module->place_of(touched.code));
  };
  return join("no barrier between two dispatches that access the same memory: ", part(before, did), "; ", part(now, does));
}

}  // namespace weft::metal::sim
