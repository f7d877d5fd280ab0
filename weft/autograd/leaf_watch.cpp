#include "weft/autograd/leaf_watch.h"

#include "weft/base/check.h"

namespace weft {
namespace {

thread_local LeafWatch* current = nullptr;

}  // namespace

WatchLeaves::WatchLeaves(LeafWatch& watch) {
  check(!current, "backward", "the leaves of this thread are watched already");
  current = &watch;
}

WatchLeaves::~WatchLeaves() { current = nullptr; }

LeafWatch* leaf_watch() { return current; }

}  // namespace weft
