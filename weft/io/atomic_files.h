// A set of files that are replaced together: each is written and synced under a temporary name, then commit() renames all of them, one
// after the other. If an error occurs before the renames, no file changes, and the temporary files and newly made folders are removed.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "weft/io/atomic_file.h"

namespace weft {

class AtomicFiles {
 public:
  AtomicFiles() = default;
  ~AtomicFiles();  // removes what is not committed
  AtomicFiles(const AtomicFiles&) = delete;
  AtomicFiles& operator=(const AtomicFiles&) = delete;

  // Adds a file and makes its folder if it does not exist. Throws bad_file with the path and the system's message.
  AtomicFile& add(const std::filesystem::path& path);
  void add(const std::filesystem::path& path, std::string_view text) { add(path).write(text); }
  // Syncs all files, then renames them in the order in which they were added.
  void commit();

 private:
  void make_folder(const std::filesystem::path& folder);

  std::vector<std::filesystem::path> new_folders_;  // parents first
  std::vector<std::unique_ptr<AtomicFile>> files_;
};

}  // namespace weft
