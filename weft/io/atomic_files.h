// Files that replace their predecessors together: each is written and synced under a temporary name, and commit() renames all of them, one
// right after the other. An error before that changes nothing: the temporary files go, and so do folders made for them.
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

  // A new file of this path, and its folder where there is none. Throws bad_file with the path and the system's message.
  AtomicFile& add(const std::filesystem::path& path);
  void add(const std::filesystem::path& path, std::string_view text) { add(path).write(text); }
  // Syncs all files, then renames them in the order in which they were added.
  void commit();

 private:
  void make_folder(const std::filesystem::path& folder);

  std::vector<std::filesystem::path> new_folders_;  // outer ones first
  std::vector<std::unique_ptr<AtomicFile>> files_;
};

}  // namespace weft
