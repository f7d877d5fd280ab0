#include "weft/data/documents.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/io/checksum.h"
#include "weft/io/mapped_file.h"
#include "weft/io/tokenizer/utf8.h"
#include "weft/data/json_documents.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// The values are part of the content hash that names cache files.
enum class Kind { text = 0, json_lines = 1, json = 2, unknown = 3 };

constexpr const char* kKnown = "text (.txt, .text, .md), JSON lines (.jsonl, .ndjson) or JSON (.json)";

std::string extension_of(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return extension;
}

Kind kind_of(const fs::path& path) {
  const std::string extension = extension_of(path);
  if (extension == ".txt" || extension == ".text" || extension == ".md") return Kind::text;
  if (extension == ".jsonl" || extension == ".ndjson") return Kind::json_lines;
  return extension == ".json" ? Kind::json : Kind::unknown;
}

std::string_view text_of(const MappedFile& file) {
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  return text;
}

// Follows links, except one to a folder that is being visited already.
void add_files(const fs::path& folder, std::vector<fs::path>& above, std::vector<std::string>& files) {
  above.push_back(fs::canonical(folder));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(".")) continue;
    if (entry.is_regular_file()) files.push_back(entry.path().string());
    if (entry.is_directory() && std::find(above.begin(), above.end(), fs::canonical(entry.path())) == above.end())
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
  for (const std::string& file : files) extensions.insert(fs::path(file).has_extension() ? extension_of(file) : "no extension");
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
  if (files.empty()) fail(ErrorCode::bad_file, folder, "the folder has no ", kKnown, " in it: ", listed(folder, left_out));
  if (notice && !left_out.empty()) notice(join(folder, ": ", listed(folder, left_out), "; only ", kKnown, " is read"));
  return files;
}

std::vector<std::string> files_at(const std::string& path, const std::function<void(const std::string&)>& notice) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail(ErrorCode::bad_file, path, "there is no such file or folder");
  if (fs::is_regular_file(status)) return {path};
  if (!fs::is_directory(status)) fail(ErrorCode::bad_file, path, "is neither a file nor a folder (a pipe, a device)");
  return known_files_in(path, notice);
}

// A file of unknown extension was named by the user and must be text.
void visit_unknown(std::string_view text, const std::string& path, const DocumentVisitor& visitor) {
  if (const size_t wrong = first_invalid_utf8(text); wrong != text.size())
    fail(ErrorCode::bad_file, path, "is not UTF-8 at byte ", wrong, "; expected ", kKnown, ", or text under another name");
  visitor(text, path);
}

}  // namespace

Documents::Documents(const std::string& path, const std::function<void(const std::string&)>& notice, ConversationReader reader)
    : files_(files_at(path, notice)), reader_(std::move(reader)) {
  for (const std::string& file : files_) {
    std::error_code error;
    const uintmax_t size = fs::file_size(file, error);
    if (!error) bytes_ += int64_t(size);
  }
  if (bytes_ == 0) fail(ErrorCode::bad_file, path, files_.size() == 1 ? "the file is empty" : "all files in this folder are empty");
}

void Documents::visit(const DocumentVisitor& visitor, const DocumentVisitor& conversation) const {
  DocumentVisitor rendered;
  if (reader_.render) rendered = [&](std::string_view json, const std::string& where) { conversation(reader_.render(json, where), where); };
  for (const std::string& path : files_) {
    const MappedFile file(path);
    const std::string_view text = text_of(file);
    if (text.empty()) continue;
    switch (kind_of(path)) {
      case Kind::text: visitor(text, path); break;
      case Kind::json_lines: visit_json_lines(text, path, {visitor, rendered}); break;
      case Kind::json: visit_json(text, path, {visitor, rendered}); break;
      case Kind::unknown: visit_unknown(text, path, visitor); break;
    }
  }
}

uint64_t Documents::content_hash() const {
  uint64_t hash = 0;
  int64_t done = 0;
  const auto tell = report_bytes("reading the data", size_t(bytes_));
  for (const std::string& path : files_) {
    const MappedFile file(path);
    const Kind kind = kind_of(path);
    const bool conversations =
        (kind == Kind::json_lines || kind == Kind::json) && text_of(file).find("\"messages\"") != std::string_view::npos;
    const uint64_t seed = hash + uint64_t(kind == Kind::unknown ? Kind::text : kind) + (conversations ? reader_.identity : 0);
    hash = xxh64(std::as_bytes(std::span(text_of(file))), seed, [&](int64_t of_file) { tell(done + of_file); });
    done += int64_t(file.bytes().size());
  }
  return hash;
}

}  // namespace weft
