// Existence of a file or folder. Not installed.
#pragma once

#include <filesystem>

namespace weft {

// False also if that cannot be found out: opening it says why.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace weft
