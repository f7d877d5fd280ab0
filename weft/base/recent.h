// A map that tracks when its values were used, and evicts the least recently used on request.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft {

template <class Key, class Value, class Hash = std::hash<Key>>
class Recent {
 public:
  // Null if there is none.
  Value* find(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    found->second.used = ++clock_;
    return &found->second.value;
  }
  Value& add(const Key& key, Value value) { return entries_.insert_or_assign(key, Entry{std::move(value), ++clock_}).first->second.value; }

  // Keeps the `most` recently used values.
  void keep(size_t most) {
    if (entries_.size() <= most) return;
    std::vector<uint64_t> times;
    for (const auto& [key, entry] : entries_) times.push_back(entry.used);
    const size_t forgotten = times.size() - most;
    std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(forgotten - 1), times.end());
    std::erase_if(entries_, [last = times[forgotten - 1]](const auto& entry) { return entry.second.used <= last; });
  }
  void clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Value value;
    uint64_t used;
  };
  std::unordered_map<Key, Entry, Hash> entries_;
  uint64_t clock_ = 0;
};

}  // namespace weft
