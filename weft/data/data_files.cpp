#include "weft/data/data_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <utility>

#include "weft/base/check.h"
#include "weft/data/data_list.h"
#include "weft/data/prepared.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Of what the file is when it is decompressed: ".jsonl" for "a.jsonl.gz".
std::string extension_of(const fs::path& path) {
  std::string extension = (coding_of(path.string()) == Coding::none ? path : path.stem()).extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return extension;
}

// Follows links, except one to a folder that is being visited already. Folders of prepared ids are skipped.
void add_files(const fs::path& folder, std::vector<fs::path>& above, std::vector<std::string>& files) {
  above.push_back(fs::canonical(folder));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(".")) continue;
    if (entry.is_regular_file()) files.push_back(entry.path().string());
    if (entry.is_directory() && !is_prepared(entry.path().string()) && !is_preparing(entry.path().string()) &&
        std::find(above.begin(), above.end(), fs::canonical(entry.path())) == above.end())
      add_files(entry.path(), above, files);
  }
  above.pop_back();
}

std::vector<std::string> files_below(const std::string& path) {
  std::vector<std::string> files;
  std::vector<fs::path> above;
  try {
    add_files(path, above, files);
  } catch (const fs::filesystem_error& error) {
    fail(ErrorCode::bad_file, error.path1().empty() ? path : error.path1().string(), "cannot be listed: ", error.code().message());
  }
  return files;
}

// "left out 3 files (.bin, .png): a.png, b.png, c.bin"; at most five by name.
std::string listed(const std::string& folder, const std::vector<std::string>& files) {
  std::set<std::string> extensions;
  for (const std::string& file : files)
    extensions.insert(fs::path(file).has_extension() ? fs::path(file).extension().string() : "no extension");
  std::string text = join("left out ", files.size(), files.size() == 1 ? " file" : " files");
  const char* separator = " (";
  for (const std::string& extension : extensions) text += join(std::exchange(separator, ", "), extension);
  separator = "): ";
  constexpr size_t kNamed = 5;
  for (size_t i = 0; i < std::min(files.size(), kNamed); ++i)
    text += join(std::exchange(separator, ", "), fs::path(files[i]).lexically_relative(folder).string());
  return files.size() > kNamed ? join(text, " and ", files.size() - kNamed, " more") : text;
}

std::vector<std::string> known_files_in(const std::string& folder, const std::function<void(const std::string&)>& notice) {
  std::vector<std::string> files = files_below(folder);
  std::sort(files.begin(), files.end());
  if (files.empty()) fail(ErrorCode::bad_file, folder, "the folder has no files in it");
  const auto others =
      std::stable_partition(files.begin(), files.end(), [](const std::string& file) { return kind_of(file) != Kind::unknown; });
  const std::vector<std::string> left_out(others, files.end());
  files.erase(others, files.end());
  if (files.empty()) fail(ErrorCode::bad_file, folder, "the folder has no ", kKnownKinds, " in it: ", listed(folder, left_out));
  if (notice && !left_out.empty()) notice(join(folder, ": ", listed(folder, left_out), "; only ", kKnownKinds, " is read"));
  return files;
}

std::vector<std::string> files_at(const std::string& path, const std::function<void(const std::string&)>& notice) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_regular_file(status)) return {path};
  if (!fs::is_directory(status)) fail(ErrorCode::bad_file, path, "is neither a file nor a folder (a pipe, a device)");
  if (is_prepared(path))
    fail(ErrorCode::bad_file, path, "holds prepared ids, which weft train reads alone or with a weight; expected texts");
  if (is_preparing(path)) fail(ErrorCode::bad_file, path, "is not prepared to its end; run weft prepare again, which continues");
  return known_files_in(path, notice);
}

}  // namespace

Kind kind_of(const std::string& path) {
  const std::string extension = extension_of(path);
  if (extension == ".txt" || extension == ".text" || extension == ".md") return Kind::text;
  if (extension == ".jsonl" || extension == ".ndjson") return Kind::json_lines;
  return extension == ".json" ? Kind::json : Kind::unknown;
}

std::vector<std::string> data_files(const std::string& list, const std::function<void(const std::string&)>& notice) {
  const std::vector<DataItem> items = data_items(list);
  check(!is_weighted(items), "data", "'", list, "' has weights, which only weft train --data takes");
  std::vector<std::string> files;
  for (const DataItem& item : items)
    for (const std::string& path : paths_of(item.path))
      for (std::string& file : files_at(path, notice)) files.push_back(std::move(file));
  return files;
}

}  // namespace weft
