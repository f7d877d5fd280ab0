// Results that are dear to compute, kept in a folder that processes share: one file per key.
//
// A file is the value, the key, then a footer: lengths and a checksum of both. It appears under its name whole; one that a
// crash, a full disk or a copy has damaged fails its checksum, is removed and computed again. The value comes first, so that
// a shared object can be opened in place.
//
// The folder is kept below a number of bytes: the files used longest ago go first (finding one counts as use).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

class FileCache {
 public:
  // `folder` exists. `suffix` ends every name, with its dot.
  FileCache(std::filesystem::path folder, std::string suffix, int64_t most_bytes);

  struct Found {
    std::filesystem::path path;
    std::string value;
  };
  // Nothing where there is none, or none that is whole.
  std::optional<Found> find(std::string_view key);

  // Nothing where it could not be written: a cache is no reason to fail.
  std::optional<std::filesystem::path> keep(std::string_view key, std::string_view value);

 private:
  std::filesystem::path path_of(std::string_view key) const;
  void make_room(const std::filesystem::path& but);

  const std::filesystem::path folder_;
  const std::string suffix_;
  const int64_t most_bytes_;
  int64_t known_bytes_ = -1;  // in the folder as far as this process knows; -1: it has not looked
};

// The folder of caches for this user: $XDG_CACHE_HOME/weft/NAME, or ~/.cache/weft/NAME; made where it is missing. Nothing where
// neither can be written.
std::optional<std::filesystem::path> cache_folder(std::string_view name);

// The limit of a cache from a variable of the environment, in MiB; `otherwise` where it is not set. Throws on anything but a
// positive number.
int64_t cache_limit(const char* variable, int64_t otherwise);

}  // namespace weft
