#include "weft/train/documents.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "weft/base/check.h"
#include "weft/io/checksum.h"
#include "weft/io/mapped_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string_view text_of(const MappedFile& file) { return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}; }

bool is_jsonl(const std::string& path) { return path.ends_with(".jsonl"); }

// Links are followed, but for those to a folder that the way down has been through already.
void add_files(const fs::path& folder, std::vector<fs::path>& above, std::vector<std::string>& files) {
  above.push_back(fs::canonical(folder));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(".")) continue;
    if (entry.is_regular_file()) files.push_back(entry.path().string());
    if (entry.is_directory() && std::find(above.begin(), above.end(), fs::canonical(entry.path())) == above.end()) add_files(entry.path(), above, files);
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

std::vector<std::string> files_at(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail(ErrorCode::bad_file, path, "there is no such file or folder");
  if (fs::is_regular_file(status)) return {path};
  if (!fs::is_directory(status)) fail(ErrorCode::bad_file, path, "is neither a file nor a folder (a pipe, a device)");
  std::vector<std::string> files = files_below(path);
  std::sort(files.begin(), files.end());
  if (files.empty()) fail(ErrorCode::bad_file, path, "the folder has no files in it");
  return files;
}

// The `text` of one line; `storage` keeps it alive.
std::string_view text_of_line(std::string_view line, const std::string& where, std::string& storage) {
  try {
    const nlohmann::json object = nlohmann::json::parse(line);
    if (!object.is_object()) fail(ErrorCode::bad_file, where, "is not a JSON object but ", object.type_name());
    const auto text = object.find("text");
    if (text == object.end()) fail(ErrorCode::bad_file, where, "has no field \"text\"");
    if (!text->is_string()) fail(ErrorCode::bad_file, where, "its field \"text\" is not a string but ", text->type_name());
    storage = text->get<std::string>();
    return storage;
  } catch (const nlohmann::json::parse_error& error) {
    fail(ErrorCode::bad_file, where, "is not valid JSON, at column ", error.byte);
  } catch (const nlohmann::json::exception& error) {  // a number out of range
    fail(ErrorCode::bad_file, where, "is not valid JSON: ", error.what());
  }
}

void visit_lines(std::string_view text, const std::string& path, const DocumentVisitor& visitor) {
  int64_t number = 0;
  std::string storage;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = join(path, ":", number);
    visitor(text_of_line(line, where, storage), where);
  }
}

}  // namespace

Documents::Documents(const std::string& path) : files_(files_at(path)) {
  uintmax_t bytes = 0;
  for (const std::string& file : files_) {
    std::error_code error;
    const uintmax_t size = fs::file_size(file, error);
    if (!error) bytes += size;
  }
  if (bytes == 0) fail(ErrorCode::bad_file, path, files_.size() == 1 ? "the file is empty" : "all files in this folder are empty");
}

void Documents::visit(const DocumentVisitor& visitor) const {
  for (const std::string& path : files_) {
    const MappedFile file(path);
    const std::string_view text = text_of(file);
    if (text.empty()) continue;
    is_jsonl(path) ? visit_lines(text, path, visitor) : visitor(text, path);
  }
}

uint64_t Documents::content_hash() const {
  uint64_t hash = 0;
  for (const std::string& path : files_) {
    const MappedFile file(path);
    hash = xxh64(file.bytes(), hash + is_jsonl(path));
  }
  return hash;
}

}  // namespace weft
