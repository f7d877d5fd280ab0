#include "weft/data/token_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/base/progress.h"
#include "weft/io/atomic_file.h"
#include "weft/io/checksum.h"
#include "weft/data/tokenise.h"

namespace weft {
namespace {

struct Header {
  char magic[8];
  uint32_t width;  // bytes per id
  uint32_t crc;    // of all after the header
  uint64_t count, documents;
  uint64_t content, vocabulary;  // what the file's name is made of
  uint64_t unused[2];
};
static_assert(sizeof(Header) == 64);
constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'T', 'O', 'K', '2'};

// Bytes between the ids and the positions of documents.
size_t padding(size_t bytes) { return (8 - bytes % 8) % 8; }

bool are_ordered(std::span<const int64_t> begins, int64_t count) {
  return std::is_sorted(begins.begin(), begins.end()) && (begins.empty() || (begins.front() == 0 && begins.back() <= count));
}

// Appends ids to a file in their width, with a running checksum.
class Writer : public TokenSink {
 public:
  Writer(const std::string& path, Header header) : file_(path), header_(header) { file_.write(std::as_bytes(std::span(&header_, 1))); }

  void add(std::span<const int32_t> ids) override {
    header_.count += ids.size();
    if (header_.width == 4) return append(std::as_bytes(ids));
    for (; !ids.empty(); ids = ids.subspan(narrow_.size())) {
      narrow_.assign(ids.begin(), ids.begin() + ptrdiff_t(std::min(ids.size(), kNarrowed)));
      append(std::as_bytes(std::span(narrow_)));
    }
  }
  void begin_document() override { begins_.push_back(int64_t(header_.count)); }
  void commit() {
    constexpr std::byte kZeros[8] = {};
    append(std::span(kZeros).first(padding(header_.count * header_.width)));
    append(std::as_bytes(std::span(begins_)));
    header_.documents = begins_.size();
    file_.write_at(0, std::as_bytes(std::span(&header_, 1)));
    file_.commit();
  }

 private:
  static constexpr size_t kNarrowed = size_t(1) << 18;  // ids at once
  void append(std::span<const std::byte> bytes) {
    header_.crc = crc32c(bytes, header_.crc);
    file_.write(bytes);
  }
  AtomicFile file_;
  Header header_;
  std::vector<uint16_t> narrow_;
  std::vector<int64_t> begins_;
};

std::span<const std::byte> bytes_of_text(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

TokenCache::TokenCache(const Documents& documents, const Vocabulary& vocabulary, const std::string& folder,
                       const std::function<void(const std::string&)>& notice, int threads) {
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
  if (error)
    fail(ErrorCode::bad_file, folder, "the token cache cannot be created: ", error.message(), "; choose another folder with --cache");
  remove_incomplete(folder);  // what a killed run left
  Writer writer(path_, header);
  tokenise(documents, vocabulary, threads > 0 ? threads : available_threads(), writer);
  writer.commit();
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
  const auto rest = bytes.subspan(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || (header.width != 2 && header.width != 4)) return false;
  if (header.count > rest.size() || header.documents > rest.size()) return false;
  const size_t of_ids = header.count * header.width + padding(header.count * header.width);
  if (rest.size() != of_ids + header.documents * sizeof(int64_t) ||
      crc32c(rest, 0, report_bytes("reading tokens", rest.size())) != header.crc)
    return false;
  width_ = int(header.width);
  count_ = int64_t(header.count);
  documents_ = int64_t(header.documents);
  narrow_ = reinterpret_cast<const uint16_t*>(rest.data());
  wide_ = reinterpret_cast<const int32_t*>(rest.data());
  begins_ = reinterpret_cast<const int64_t*>(rest.data() + of_ids);
  return are_ordered(std::span(begins_, size_t(documents_)), count_);
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
