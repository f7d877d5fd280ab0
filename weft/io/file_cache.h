// A folder shared by processes that caches results which are expensive to compute: one file per key.
//
// A file is the value, the key, then a footer: lengths and a checksum of both. It appears under its name whole; one damaged by a crash,
// a full disk or a copy fails its checksum, is removed and computed again. The value comes first, so that a shared object can be opened
// in place.
//
// The folder's size is limited: the least recently used files are evicted first (a lookup counts as use).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

class FileCache {
 public:
  // `folder` must exist. `suffix` ends every name and includes its dot.
  FileCache(std::filesystem::path folder, std::string suffix, int64_t most_bytes);

  struct Found {
    std::filesystem::path path;
    std::string value;
  };
  // Empty if there is no intact file for the key.
  std::optional<Found> find(std::string_view key);

  // Empty if the file could not be written: a failing cache is not an error.
  std::optional<std::filesystem::path> keep(std::string_view key, std::string_view value);

 private:
  std::filesystem::path path_of(std::string_view key) const;
  void make_room(const std::filesystem::path& but);

  const std::filesystem::path folder_;
  const std::string suffix_;
  const int64_t most_bytes_;
  int64_t known_bytes_ = -1;  // size of the folder as last seen by this process; -1: not read yet
};

// The user's cache folder: $XDG_CACHE_HOME/weft/NAME, or ~/.cache/weft/NAME; created if missing. Empty if neither can be
// written.
std::optional<std::filesystem::path> cache_folder(std::string_view name);

// The size limit of a cache in bytes, from an environment variable in MiB; `otherwise` if it is not set. Throws on anything but a positive
// number.
int64_t cache_limit(const char* variable, int64_t otherwise);

}  // namespace weft
