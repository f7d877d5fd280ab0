#include "weft/data/data_list.h"

#include <glob.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "weft/base/check.h"
#include "weft/io/byte_stream.h"
#include "weft/io/is_there.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Whether the part after a colon is meant as a weight: it begins like a number.
bool looks_like_weight(std::string_view text) {
  return !text.empty() && text.find('/') == text.npos &&
         (std::isdigit(uint8_t(text[0])) || text[0] == '-' || text[0] == '+' || text[0] == '.');
}

double weight_of(const std::string& text, const std::string& item) {
  double weight = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  check(error == std::errc() && end == text.data() + text.size() && std::isfinite(weight) && weight > 0, "data", "the weight of '", item,
        "' is ", text, ", expected a number above 0");
  return weight;
}

DataItem item_of(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (is_there(text) || colon == text.npos || colon == 0 || !looks_like_weight(std::string_view(text).substr(colon + 1))) return {text};
  return {text.substr(0, colon), weight_of(text.substr(colon + 1), text.substr(0, colon))};
}

std::string stem_of(const std::string& path) {
  fs::path whole = fs::absolute(path).lexically_normal();
  if (whole.filename().empty()) whole = whole.parent_path();
  while (whole.filename().string().find_first_of("*?[") != std::string::npos) whole = whole.parent_path();
  const std::string name = whole.filename().string();
  const fs::path plain = coding_of(name) == Coding::none ? whole : whole.stem();
  return name.empty() ? "root" : plain.stem().string();
}

}  // namespace

std::vector<DataItem> data_items(const std::string& list) {
  if (is_there(list)) return {{list}};
  std::vector<DataItem> items;
  for (size_t from = 0; from <= list.size();) {
    const size_t comma = std::min(list.find(',', from), list.size());
    check(comma > from, "data", "an item of the list '", list, "' is empty");
    items.push_back(item_of(list.substr(from, comma - from)));
    from = comma + 1;
  }
  const bool weighted = is_weighted(items);
  for (const DataItem& item : items)
    check((item.weight > 0) == weighted, "data", "'", item.path, "' has no weight, but another item of '", list,
          "' has: give all items a weight (PATH:0.3), or none");
  return items;
}

bool is_weighted(const std::vector<DataItem>& items) {
  return std::ranges::any_of(items, [](const DataItem& item) { return item.weight > 0; });
}

std::vector<std::string> paths_of(const std::string& item) {
  if (is_there(item)) return {item};
  if (item.find_first_of("*?[") == item.npos) fail(ErrorCode::bad_file, item, "there is no such file or folder");
  glob_t found{};
  const int code = ::glob(item.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + (code == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  if (code == GLOB_NOSPACE) fail(ErrorCode::out_of_memory, item, "has too many matches");
  if (paths.empty()) fail(ErrorCode::bad_file, item, "no file matches this pattern");
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string data_name(const std::string& list) {
  const std::vector<DataItem> items = data_items(list);
  const std::string first = stem_of(items[0].path);
  return items.size() == 1   ? first
         : items.size() == 2 ? join(first, "-", stem_of(items[1].path))
                             : join(first, "-", items.size() - 1, "-more");
}

}  // namespace weft
