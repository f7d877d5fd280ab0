#include "weft/generate/kept_prefixes.h"

#include <algorithm>
#include <unordered_map>

namespace weft {

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

void KeptPrefixes::keep(std::span<const int32_t> ids, KvSequence pages) {
  if (ids.empty()) return;
  if (const Match match = find(ids, pages.adapter()); match.length == ids.size()) return use(match);
  std::erase_if(entries_,
                [&](const Entry& e) { return e.pages.adapter() == pages.adapter() && common_prefix(e.ids, ids) == e.ids.size(); });
  entries_.push_back({{ids.begin(), ids.end()}, std::move(pages), ++uses_});
}

KeptPrefixes::Match KeptPrefixes::find(std::span<const int32_t> ids, int adapter) const {
  Match longest;
  for (size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].pages.adapter() == adapter)
      if (const size_t shared = common_prefix(ids, entries_[i].ids); shared > longest.length) longest = {i, shared};
  return longest;
}

int64_t KeptPrefixes::pages() const {
  std::unordered_map<int32_t, int64_t> references;
  for (const Entry& e : entries_)
    for (int32_t page : e.pages.pages()) ++references[page];
  return std::ranges::count_if(references,
                               [&](const auto& page) { return entries_.front().pages.pool()->references(page.first) == page.second; });
}

void KeptPrefixes::give_up_page() {
  const auto oldest = std::ranges::min_element(entries_, {}, &Entry::used);
  const int64_t left = (int64_t(oldest->pages.pages().size()) - 1) * kPagePositions;
  oldest->pages.truncate(left);
  oldest->ids.resize(size_t(left));
  if (left == 0) entries_.erase(oldest);
}

}  // namespace weft
