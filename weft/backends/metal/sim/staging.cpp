#include "weft/backends/metal/sim/staging.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"

namespace weft::metal::sim {
namespace {

constexpr uint64_t kMargin = 256 << 20, kPage = 4096;

constexpr uintptr_t kNowhere = uintptr_t(0x6000) << 48;  // not a canonical address

uint64_t open_bytes(uint64_t bytes) { return (bytes + 2 * kPage) / kPage * kPage; }

// Pages that can be mapped several times.
class Pages {
 public:
  explicit Pages(uint64_t bytes) : bytes_(bytes), file_(memfd_create("weft-metal-sim", MFD_CLOEXEC)) {
    if (file_ < 0 || ftruncate(file_, off_t(bytes)) != 0) no_memory();
  }
  ~Pages() {
    if (file_ >= 0) close(file_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  // Maps them with an inaccessible margin on both sides.
  char* map() const {
    void* all = mmap(nullptr, 2 * kMargin + bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) no_memory();
    auto* mapped = static_cast<char*>(all);
    if (mmap(mapped + kMargin, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0) == MAP_FAILED) no_memory();
    return mapped;
  }

 private:
  [[noreturn]] void no_memory() const { fail(ErrorCode::out_of_memory, "metal-sim", "no memory to check ", bytes_, " bytes"); }

  uint64_t bytes_;
  int file_;
};

}  // namespace

std::string name_of(const weft_sim::Kernel& kernel, int index) {
  for (int i = 0; i < kernel.parameter_count; ++i) {
    const weft_sim::Parameter& p = kernel.parameters[i];
    if (p.kind == weft_sim::Parameter::buffer && p.index == index) return p.name;
  }
  return join("buffer(", index, ")");
}

// The address at which a view sees the first byte of the block; keeps its alignment.
char* Staging::begin_of(const Block& block, const View& view) { return view.mapped + kMargin + uintptr_t(block.from) % kPage; }

std::vector<Staging::Block> Staging::overlapping() const {
  std::vector<Block> blocks;
  const weft_sim::Bindings& bound = launch_.bindings;
  for (int i = 0; i < weft_sim::kMostBuffers; ++i) {
    if (!bound.pointer[i]) continue;
    auto* pointer = static_cast<char*>(bound.pointer[i]);
    Block block{pointer, bound.bytes[i], {{i, pointer}}};
    for (size_t k = blocks.size(); k-- > 0;) {
      Block& other = blocks[k];
      if (other.from >= block.from + block.bytes || block.from >= other.from + other.bytes) continue;
      char* end = std::max(other.from + other.bytes, block.from + block.bytes);
      block.from = std::min(other.from, block.from);
      block.bytes = uint64_t(end - block.from);
      block.views.insert(block.views.end(), other.views.begin(), other.views.end());
      blocks.erase(blocks.begin() + std::ptrdiff_t(k));
    }
    blocks.push_back(block);
  }
  return blocks;
}

Staging::Staging(DispatchRun& launch, Shadow& shadow) : launch_(launch), blocks_(overlapping()) {
  shadow.begin_launch();
  for (Block& block : blocks_) move(block, shadow);
  weft_sim::Bindings& bound = launch.bindings;
  for (int i = 0; i < weft_sim::kMostBuffers; ++i) {
    if (bound.pointer[i]) continue;
    unbound_.push_back(i);
    bound.pointer[i] = reinterpret_cast<void*>(kNowhere + (uintptr_t(i) << 40));
    shadow.add_unbound(static_cast<const char*>(bound.pointer[i]), name_of(*launch.kernel, i));
  }
}

void Staging::move(Block& block, Shadow& shadow) {
  const Pages pages(open_bytes(block.bytes));
  const bool copied = launch_.copied_bindings >> block.views[0].index & 1;
  const auto cells = shadow.add_block(copied ? nullptr : block.from, block.bytes);
  for (View& view : block.views) {
    view.mapped = pages.map();
    char* begin = begin_of(block, view);
    if (&view == block.views.data()) std::memcpy(begin, block.from, block.bytes);
    const auto offset = uint64_t(view.bound - block.from);
    launch_.bindings.pointer[view.index] = begin + offset;
    const bool read_only = copied || launch_.read_only_bindings >> view.index & 1;
    shadow.add({begin + offset, launch_.bindings.bytes[view.index], name_of(*launch_.kernel, view.index), cells, offset, read_only});
  }
}

Staging::~Staging() {
  for (int i : unbound_) launch_.bindings.pointer[i] = nullptr;
  for (const Block& block : blocks_) {
    if (block.views[0].mapped) std::memcpy(block.from, begin_of(block, block.views[0]), block.bytes);
    for (const View& view : block.views) {
      launch_.bindings.pointer[view.index] = view.bound;
      if (view.mapped) munmap(view.mapped, 2 * kMargin + open_bytes(block.bytes));
    }
  }
}

}  // namespace weft::metal::sim
