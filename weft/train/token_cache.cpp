#include "weft/train/token_cache.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "weft/base/check.h"
#include "weft/io/atomic_file.h"
#include "weft/io/checksum.h"

namespace weft {
namespace {

struct Header {
  char magic[8];
  uint32_t width;  // bytes per id
  uint32_t crc;    // of the ids
  uint64_t count;
  uint64_t content, vocabulary;  // what the file's name is made of
  uint64_t unused[3];
};
static_assert(sizeof(Header) == 64);
constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'T', 'O', 'K', '1'};

// Appends ids to a file in their width, with a running checksum.
class Writer {
 public:
  Writer(const std::string& path, Header header) : file_(path), header_(header) { file_.write(std::as_bytes(std::span(&header_, 1))); }

  void add(const std::vector<int32_t>& ids) {
    if (header_.width == 2) {
      narrow_.assign(ids.begin(), ids.end());
      append(std::as_bytes(std::span(narrow_)));
    } else {
      append(std::as_bytes(std::span(ids)));
    }
    header_.count += ids.size();
  }
  void commit() {
    file_.write_at(0, std::as_bytes(std::span(&header_, 1)));
    file_.commit();
  }

 private:
  void append(std::span<const std::byte> bytes) {
    header_.crc = crc32c(bytes, header_.crc);
    file_.write(bytes);
  }
  AtomicFile file_;
  Header header_;
  std::vector<uint16_t> narrow_;
};

void tokenise(const Documents& documents, const Vocabulary& vocabulary, const std::string& path, const Header& header) {
  Writer writer(path, header);
  std::vector<int32_t> ids;
  bool first = true;
  documents.visit([&](std::string_view text, const std::string& where) {
    ids.clear();
    if (const auto end = vocabulary.end_of_text(); end && !first) ids.push_back(*end);
    first = false;
    for (size_t at = 0; at < text.size();) next_character(text, at, where);  // valid UTF-8, or an error that says where it is not
    vocabulary.encode(text, ids, where);
    writer.add(ids);
  });
  writer.commit();
}

std::span<const std::byte> bytes_of_text(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

TokenCache::TokenCache(const Documents& documents, const Vocabulary& vocabulary, const std::string& folder,
                       const std::function<void(const std::string&)>& notice) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.width = vocabulary.size() <= 65536 ? 2 : 4;
  header.content = documents.content_hash();
  header.vocabulary = xxh64(bytes_of_text(vocabulary.kind()), vocabulary.hash());
  char name[48];
  std::snprintf(name, sizeof name, "%016llx-%016llx.tokens", (unsigned long long)header.content, (unsigned long long)header.vocabulary);
  path_ = (std::filesystem::path(folder) / name).string();
  if (open()) return;
  if (notice) notice(join("tokenising ", documents.files().size(), documents.files().size() == 1 ? " file" : " files", " into ", path_));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorCode::bad_file, folder, "the token cache cannot be created: ", error.message(), "; choose another folder with --cache");
  tokenise(documents, vocabulary, path_, header);
  check(open(), path_, "the token cache was written, but does not read back");
}

std::string TokenCache::identity() const { return std::filesystem::path(path_).stem().string(); }

bool TokenCache::open() {
  if (!std::filesystem::exists(path_)) return false;
  file_ = std::make_unique<MappedFile>(path_);
  const auto bytes = file_->bytes();
  Header header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto ids = bytes.subspan(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || (header.width != 2 && header.width != 4)) return false;
  if (ids.size() / header.width != header.count || ids.size() % header.width != 0 || crc32c(ids) != header.crc) return false;
  width_ = int(header.width);
  count_ = int64_t(header.count);
  narrow_ = reinterpret_cast<const uint16_t*>(ids.data());
  wide_ = reinterpret_cast<const int32_t*>(ids.data());
  return true;
}

std::string default_cache_folder() {
  const auto set = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (const std::string folder = set("WEFT_CACHE"); !folder.empty()) return folder;
  if (const std::string folder = set("XDG_CACHE_HOME"); !folder.empty()) return folder + "/weft";
  if (const std::string home = set("HOME"); !home.empty()) return home + "/.cache/weft";
  return ".weft_cache";
}

}  // namespace weft
