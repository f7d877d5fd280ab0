// Methods of values by name.
#pragma once

#include <span>
#include <string_view>

#include "weft/chat/native.h"

namespace weft::chat {

struct MethodEntry {
  std::string_view name;
  Callable function;
};

std::span<const MethodEntry> string_case_methods();    // upper, isdigit ... (string_case_methods.cpp)
std::span<const MethodEntry> string_search_methods();  // find, startswith, replace ... (string_search_methods.cpp)
std::span<const MethodEntry> string_cut_methods();     // split, strip, join ... (string_cut_methods.cpp)

// Shared with the filters.
std::string replaced(Heap& heap, std::string_view text, std::string_view old, std::string_view fresh, int64_t most);  // most < 0: all
std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends);                                        // str.splitlines()

}  // namespace weft::chat
