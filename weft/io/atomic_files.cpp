#include "weft/io/atomic_files.h"

#include <ranges>

#include "weft/base/check.h"

namespace weft {

namespace fs = std::filesystem;

AtomicFiles::~AtomicFiles() {
  files_.clear();
  std::error_code ignored;
  for (const fs::path& folder : std::views::reverse(new_folders_))
    fs::remove(folder, ignored);  // fails, as it should, if the folder has other files
}

void AtomicFiles::make_folder(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path each = folder; !each.empty() && !fs::exists(each, error); each = each.parent_path()) missing.push_back(each);
  for (const fs::path& each : std::views::reverse(missing)) {
    if (fs::create_directory(each, error)) new_folders_.push_back(each);
    if (error) fail(ErrorCode::bad_file, folder.string(), "cannot be created: ", error.message());
  }
}

AtomicFile& AtomicFiles::add(const fs::path& path) {
  make_folder(path.parent_path());
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) fail(ErrorCode::bad_file, path.string(), "is a folder, expected a file to replace");
  return *files_.emplace_back(std::make_unique<AtomicFile>(path.string()));
}

void AtomicFiles::commit() {
  for (const auto& file : files_) file->sync();
  new_folders_.clear();
  for (const auto& file : files_) file->commit();
  files_.clear();
}

}  // namespace weft
