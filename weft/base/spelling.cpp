#include "weft/base/spelling.h"

#include <algorithm>
#include <numeric>

namespace weft {
namespace {

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_word(std::string_view wrong, const std::vector<std::string>& words) {
  const auto nearest = std::min_element(
      words.begin(), words.end(), [&](const std::string& a, const std::string& b) { return distance(wrong, a) < distance(wrong, b); });
  if (nearest == words.end() || distance(wrong, *nearest) > std::max<size_t>(2, wrong.size() / 3)) return "";
  return *nearest;
}

std::vector<std::string> words_in(std::string_view list) {
  std::vector<std::string> words;
  for (size_t from = 0; from < list.size();) {
    const size_t comma = std::min(list.find(',', from), list.size());
    if (comma > from) words.emplace_back(list.substr(from, comma - from));
    from = comma + 1;
  }
  return words;
}

}  // namespace weft
