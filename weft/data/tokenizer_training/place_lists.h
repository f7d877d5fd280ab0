// Lists of word indices in blocks of memory, without an allocation of its own for each short list. A long list has a block of its own and
// can be freed. Not installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace weft {

class PlaceLists {
 public:
  using List = std::span<uint32_t>;

  // A new list of `size` elements, not yet written.
  List add(size_t size) {
    if (size >= kOwnBlock) {
      auto block = std::make_unique_for_overwrite<uint32_t[]>(size);
      const List list(block.get(), size);
      own_.emplace(list.data(), std::move(block));
      return list;
    }
    if (size > left_) {
      blocks_.push_back(std::make_unique_for_overwrite<uint32_t[]>(kBlock));
      next_ = blocks_.back().get();
      left_ = kBlock;
    }
    const List list(next_, size);
    next_ += size;
    left_ -= size;
    return list;
  }
  // The list is not used again.
  void free(List list) {
    if (list.size() >= kOwnBlock) own_.erase(list.data());
  }

 private:
  static constexpr size_t kBlock = size_t(1) << 18;     // elements: 1 MiB
  static constexpr size_t kOwnBlock = size_t(1) << 12;  // elements: 16 KiB
  std::vector<std::unique_ptr<uint32_t[]>> blocks_;
  std::unordered_map<const uint32_t*, std::unique_ptr<uint32_t[]>> own_;
  uint32_t* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace weft
