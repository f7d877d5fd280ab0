// A stable sort that takes any comparison: one that contradicts itself (NaN) gives some order, one that throws leaves all elements there.
// std::stable_sort requires a strict weak order, which a template does not promise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weft::chat {

template <class T, class Less>
void merge_sort(std::vector<T>& items, Less less) {
  std::vector<T> merged;
  for (size_t width = 1; width < items.size(); width *= 2) {
    merged.clear();
    merged.reserve(items.size());
    for (size_t first = 0; first < items.size(); first += 2 * width) {
      const size_t middle = std::min(first + width, items.size()), last = std::min(middle + width, items.size());
      size_t left = first, right = middle;
      while (left < middle && right < last) merged.push_back(less(items[right], items[left]) ? items[right++] : items[left++]);
      merged.insert(merged.end(), items.begin() + ptrdiff_t(left), items.begin() + ptrdiff_t(middle));
      merged.insert(merged.end(), items.begin() + ptrdiff_t(right), items.begin() + ptrdiff_t(last));
    }
    items.swap(merged);
  }
}

}  // namespace weft::chat
