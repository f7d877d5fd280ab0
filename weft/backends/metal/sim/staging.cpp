#include "weft/backends/metal/sim/staging.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"

namespace weft::metal::sim {
namespace {

constexpr uint64_t kMargin = 256 << 20, kPage = 4096;

constexpr uintptr_t kNowhere = uintptr_t(0x6000) << 48;  // no address that a program can have

uint64_t open_bytes(uint64_t bytes) { return (bytes + 2 * kPage) / kPage * kPage; }
uint64_t mapped_bytes(uint64_t bytes) { return 2 * kMargin + open_bytes(bytes); }

std::string name_of(const weft_sim::Kernel& kernel, int index) {
  for (int i = 0; i < kernel.parameter_count; ++i) {
    const weft_sim::Parameter& p = kernel.parameters[i];
    if (p.kind == weft_sim::Parameter::buffer && p.index == index) return p.name;
  }
  return join("buffer(", index, ")");
}

}  // namespace

std::vector<Staging::Block> Staging::overlapping() const {
  std::vector<Block> blocks;
  const weft_sim::Bindings& bound = launch_.bindings;
  for (int i = 0; i < weft_sim::kMostBuffers; ++i) {
    if (!bound.pointer[i]) continue;
    Block block{static_cast<char*>(bound.pointer[i]), bound.bytes[i], {i}};
    for (size_t k = blocks.size(); k-- > 0;) {
      Block& other = blocks[k];
      if (other.from >= block.from + block.bytes || block.from >= other.from + other.bytes) continue;
      char* end = std::max(other.from + other.bytes, block.from + block.bytes);
      block.from = std::min(other.from, block.from);
      block.bytes = uint64_t(end - block.from);
      block.indices.insert(block.indices.end(), other.indices.begin(), other.indices.end());
      blocks.erase(blocks.begin() + std::ptrdiff_t(k));
    }
    blocks.push_back(block);
  }
  return blocks;
}

Staging::Staging(Launch& launch, Shadow& shadow) : launch_(launch), blocks_(overlapping()) {
  shadow.begin_launch();
  weft_sim::Bindings& bound = launch.bindings;
  for (Block& block : blocks_) {
    void* mapped = mmap(nullptr, mapped_bytes(block.bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) fail(ErrorCode::out_of_memory, "metal-sim", "no memory to check ", block.bytes, " bytes");
    block.mapped = static_cast<char*>(mapped);
    mprotect(block.mapped + kMargin, open_bytes(block.bytes), PROT_READ | PROT_WRITE);
    block.to = block.mapped + kMargin + uintptr_t(block.from) % kPage;  // alignment stays what it was
    std::memcpy(block.to, block.from, block.bytes);
    std::string name;
    for (int i : block.indices) {
      name = join(name, name.empty() ? "" : "/", name_of(*launch.kernel, i));
      bound.pointer[i] = block.to + (static_cast<char*>(bound.pointer[i]) - block.from);
    }
    shadow.add(Memory::device, block.to, block.bytes, name);
  }
  for (int i = 0; i < weft_sim::kMostBuffers; ++i) {
    if (bound.pointer[i]) continue;
    unbound_.push_back(i);
    bound.pointer[i] = reinterpret_cast<void*>(kNowhere + (uintptr_t(i) << 40));
    shadow.add_unbound(static_cast<const char*>(bound.pointer[i]), name_of(*launch.kernel, i));
  }
}

Staging::~Staging() {
  for (int i : unbound_) launch_.bindings.pointer[i] = nullptr;
  for (const Block& block : blocks_) {
    if (block.to) std::memcpy(block.from, block.to, block.bytes);
    for (int i : block.indices) launch_.bindings.pointer[i] = block.from + (static_cast<char*>(launch_.bindings.pointer[i]) - block.to);
    if (block.mapped) munmap(block.mapped, mapped_bytes(block.bytes));
  }
}

}  // namespace weft::metal::sim
