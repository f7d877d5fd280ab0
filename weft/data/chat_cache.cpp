#include "weft/data/chat_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>

#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/base/progress.h"
#include "weft/data/chat_lines.h"
#include "weft/io/atomic_file.h"
#include "weft/io/checksum.h"

namespace weft {
namespace {

struct Header {
  char magic[8];
  uint32_t crc;      // of all after the header
  uint32_t largest;  // id
  uint64_t tokens, conversations;
  uint64_t content, encoder;  // the name of the file
  uint64_t unused[2];
};
static_assert(sizeof(Header) == 64);
constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'C', 'H', 'T', '1'};
constexpr uint32_t kCounts = 0x80000000;

// Bytes between the words and the positions of conversations.
size_t padding(size_t tokens) { return tokens % 2 * sizeof(uint32_t); }

class Writer {
 public:
  Writer(const std::string& path, const Header& header) : file_(path), header_(header) {
    file_.write(std::as_bytes(std::span(&header_, 1)));
  }

  void add(const EncodedChat& chat) {
    begins_.push_back(int64_t(header_.tokens));
    words_.clear();
    for (size_t i = 0; i < chat.ids.size(); ++i) {
      words_.push_back(uint32_t(chat.ids[i]) | (chat.counts[i] ? kCounts : 0));
      header_.largest = std::max(header_.largest, uint32_t(chat.ids[i]));
    }
    header_.tokens += words_.size();
    append(std::as_bytes(std::span(words_)));
  }
  void commit() {
    constexpr std::byte kZeros[sizeof(uint32_t)] = {};
    append(std::span(kZeros).first(padding(header_.tokens)));
    append(std::as_bytes(std::span(begins_)));
    header_.conversations = begins_.size();
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
  std::vector<uint32_t> words_;
  std::vector<int64_t> begins_;
};

// Encodes lines in parallel, a few megabytes at a time, and passes them on in order. Raises the first error in that order.
class Encoding {
 public:
  Encoding(const ChatEncoder& encoder, int threads, Writer& writer, int64_t bytes)
      : encoder_(encoder), threads_(threads), writer_(writer), tell_(report_bytes("tokenising", size_t(bytes))) {}

  void add(std::string_view json, const std::string& where) {
    lines_.push_back({std::string(json), where, {}});
    held_ += json.size() + sizeof(Line);
    done_ += int64_t(json.size());
    if (held_ >= kBatchBytes) flush();
  }

  void flush() {
    tell_(done_);
    const int64_t tasks = ceil_div(int64_t(lines_.size()), kTaskLines);
    parallel_for(tasks, threads_, [&](int64_t task) {
      const int64_t end = std::min((task + 1) * kTaskLines, int64_t(lines_.size()));
      for (int64_t i = task * kTaskLines; i < end; ++i) {
        Line& line = lines_[size_t(i)];
        line.chat = encoder_.encode(line.json, line.where);
      }
    });
    for (const Line& line : lines_) writer_.add(line.chat);
    lines_.clear();
    held_ = 0;
  }

 private:
  static constexpr size_t kBatchBytes = size_t(4) << 20;  // of JSON; its ids take about as much, whatever their number of threads
  static constexpr int64_t kTaskLines = 8;
  struct Line {
    std::string json, where;
    EncodedChat chat;
  };
  const ChatEncoder& encoder_;
  const int threads_;
  Writer& writer_;
  const std::function<void(int64_t)> tell_;
  std::vector<Line> lines_;
  size_t held_ = 0;
  int64_t done_ = 0;
};

bool are_ordered(std::span<const int64_t> begins, int64_t tokens) {
  return std::adjacent_find(begins.begin(), begins.end(), std::greater_equal<>()) == begins.end() && !begins.empty() &&
         begins.front() == 0 && begins.back() < tokens;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail(ErrorCode::bad_file, folder, "the token cache cannot be created: ", error.message(), "; choose another folder with --cache");
  remove_incomplete(folder);  // of killed runs
}

}  // namespace

ChatCache::ChatCache(const Documents& documents, const ChatEncoder& encoder, const std::string& folder,
                     const std::function<void(const std::string&)>& notice, int threads) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.content = documents.content_hash();
  header.encoder = encoder.identity();
  char name[48];
  std::snprintf(name, sizeof name, "%016llx-%016llx.chat", (unsigned long long)header.content, (unsigned long long)header.encoder);
  path_ = (std::filesystem::path(folder) / name).string();
  if (open()) return;
  if (notice) notice(join("tokenising ", documents.files().size(), documents.files().size() == 1 ? " file" : " files", " into ", path_));
  make_folder(folder);
  Writer writer(path_, header);
  Encoding encoding(encoder, threads > 0 ? threads : available_threads(), writer, documents.bytes());
  int64_t count = 0;
  visit_chat_lines(documents, [&](std::string_view json, const std::string& where) {
    encoding.add(json, where);
    ++count;
  });
  encoding.flush();
  if (count == 0) fail(ErrorCode::bad_file, documents.files().front(), "has no conversations");
  writer.commit();
  report_progress({.what = "tokenising", .done = documents.bytes(), .total = documents.bytes(), .bytes = true});
  check(open(), path_, "the token cache was written, but does not read back");
}

std::string ChatCache::identity() const { return std::filesystem::path(path_).stem().string(); }

bool ChatCache::open() {
  if (!std::filesystem::exists(path_)) return false;
  file_ = std::make_unique<MappedFile>(path_);
  const auto bytes = file_->bytes();
  Header header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto rest = bytes.subspan(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.tokens > rest.size() || header.conversations > rest.size())
    return false;
  const size_t of_words = header.tokens * sizeof(uint32_t) + padding(header.tokens);
  if (rest.size() != of_words + header.conversations * sizeof(int64_t) ||
      crc32c(rest, 0, report_bytes("reading tokens", rest.size())) != header.crc)
    return false;
  tokens_ = int64_t(header.tokens);
  conversations_ = int64_t(header.conversations);
  largest_ = int32_t(header.largest);
  words_ = reinterpret_cast<const uint32_t*>(rest.data());
  begins_ = reinterpret_cast<const int64_t*>(rest.data() + of_words);
  return are_ordered(std::span(begins_, size_t(conversations_)), tokens_);
}

}  // namespace weft
