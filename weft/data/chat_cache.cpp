#include "weft/data/chat_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>

#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/base/progress.h"
#include "weft/data/prepared.h"
#include "weft/io/atomic_file.h"
#include "weft/io/checksum.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

struct Header {
  char magic[8];
  uint32_t crc;      // of all after the header
  uint32_t largest;  // id
  uint64_t tokens, conversations;
  uint64_t content;  // a hash of the words of each conversation
  uint64_t unused[3];
};
static_assert(sizeof(Header) == 64);
constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'C', 'H', 'T', '2'};
constexpr uint32_t kCounts = 0x80000000;
constexpr uint64_t kReadWhole = uint64_t(32) << 20;  // ids that are compared with their checksum at every start, as of text

// Bytes between the words and the index of conversations.
size_t padding(size_t tokens) { return tokens % 2 * sizeof(uint32_t); }

class Writer {
 public:
  explicit Writer(const std::string& path) : file_(path) {
    std::memcpy(header_.magic, kMagic, sizeof kMagic);
    file_.write(std::as_bytes(std::span(&header_, 1)));
  }

  void add(const EncodedChat& chat) {
    index_.push_back({int64_t(header_.tokens), std::count(chat.counts.begin(), chat.counts.end(), 1)});
    words_.clear();
    for (size_t i = 0; i < chat.ids.size(); ++i) {
      words_.push_back(uint32_t(chat.ids[i]) | (chat.counts[i] ? kCounts : 0));
      header_.largest = std::max(header_.largest, uint32_t(chat.ids[i]));
    }
    header_.tokens += words_.size();
    header_.content = xxh64(std::as_bytes(std::span(words_)), header_.content);
    append(std::as_bytes(std::span(words_)));
  }
  Header commit() {
    constexpr std::byte kZeros[sizeof(uint32_t)] = {};
    append(std::span(kZeros).first(padding(header_.tokens)));
    append(std::as_bytes(std::span(index_)));
    header_.conversations = index_.size();
    file_.write_at(0, std::as_bytes(std::span(&header_, 1)));
    file_.commit();
    return header_;
  }
  bool empty() const { return index_.empty(); }

 private:
  void append(std::span<const std::byte> bytes) {
    header_.crc = crc32c(bytes, header_.crc);
    file_.write(bytes);
  }
  AtomicFile file_;
  Header header_{};
  std::vector<uint32_t> words_;
  std::vector<ChatCache::Entry> index_;
};

// Encodes lines in parallel, a few megabytes at a time, and passes them on in order. Raises the first error in that order.
class Encoding {
 public:
  Encoding(const ChatEncoder& encoder, int threads, Writer& writer, int64_t bytes)
      : encoder_(encoder), threads_(threads), writer_(writer), tell_(report_bytes("tokenising", size_t(bytes))) {}

  void add(std::string_view json, const std::string& where) {
    lines_.push_back({std::string(json), where, {}});
    held_ += json.size() + sizeof(Line);
  }
  // `bytes` of the files were read.
  void read(int64_t bytes) {
    if (held_ >= kBatchBytes) flush(bytes);
  }
  void flush(int64_t bytes) {
    tell_(bytes);
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
    tell_(bytes);
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
  const std::function<void(int64_t)> tell_;  // reports the bytes of the files that are read
  std::vector<Line> lines_;
  size_t held_ = 0;
};

// Every conversation has an id before its answers, and an answer.
bool is_index(std::span<const ChatCache::Entry> index, int64_t tokens) {
  int64_t end = tokens;
  for (size_t i = index.size(); i-- > 0; end = index[i].begin)
    if (index[i].begin < 0 || index[i].begin >= end || index[i].counted < 1 || index[i].counted >= end - index[i].begin) return false;
  return end == 0;
}

}  // namespace

ChatCache::ChatCache(const Documents& documents, const ChatEncoder& encoder, const std::string& cache,
                     const std::function<void(const std::string&)>& notice, int threads) {
  Inputs inputs = inputs_of(documents, encoder.vocabulary());
  inputs.chat_template = encoder.identity();
  const std::string folder = (fs::path(cache) / cache_name(inputs, "chat")).string();
  path_ = folder + "/conversations";
  if (!find(folder, inputs)) {
    const auto lock = lock_prepared(folder, notice);
    if (!find(folder, inputs)) {
      if (notice)
        notice(join("tokenising ", documents.files().size(), documents.files().size() == 1 ? " file" : " files", " into ", folder));
      make(folder, documents, encoder, inputs, threads);
      check(find(folder, inputs), path_, "the token cache was written, but does not read back");
    }
  }
  char text[20];
  std::snprintf(text, sizeof text, "-%016llx", (unsigned long long)encoder.identity());
  identity_ += text;
}

void ChatCache::make(const std::string& folder, const Documents& documents, const ChatEncoder& encoder, Inputs& inputs, int threads) {
  try {
    fs::remove(fs::path(folder) / kPrepared);
    remove_incomplete(folder);  // of killed runs
    Writer writer(path_);
    Encoding encoding(encoder, threads > 0 ? threads : available_threads(), writer, documents.bytes());
    documents.visit_json({.document = [&](std::string_view json, const std::string& where) { encoding.add(json, where); },
                          .read = [&](int64_t bytes) { encoding.read(bytes); },
                          .end_file = [&](int64_t file, uint64_t hash) { inputs.files[size_t(file)].hash = hash; }});
    encoding.flush(documents.bytes());
    if (writer.empty()) fail(ErrorCode::bad_file, documents.files().front(), "has no conversations");
    const Header header = writer.commit();
    write_prepared(
        folder,
        {.inputs = inputs, .conversations = true, .shards = {{int64_t(header.tokens), int64_t(header.conversations), header.content}}});
  } catch (...) {
    std::error_code ignored;
    fs::remove(folder, ignored);  // fails, rightly, if there is something else
    throw;
  }
}

bool ChatCache::find(const std::string& folder, const Inputs& inputs) {
  if (!is_prepared(folder)) return false;
  try {
    Prepared prepared = read_prepared(folder);
    const std::vector<SourceFile> before = prepared.inputs.files;
    if (prepared.shards.size() != 1 || !difference(prepared.inputs, inputs, true).empty() || !open(prepared.shards[0].hash)) return false;
    if (prepared.inputs.files != before) write_prepared_if_possible(folder, prepared);
    return true;
  } catch (const Error&) {  // damaged
    return false;
  }
}

bool ChatCache::open(uint64_t content) {
  file_ = std::make_unique<MappedFile>(path_);
  const auto bytes = file_->bytes();
  Header header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto rest = bytes.subspan(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.content != content || header.tokens > rest.size() ||
      header.conversations > rest.size() || header.largest > kId)
    return false;
  const size_t of_words = header.tokens * sizeof(uint32_t) + padding(header.tokens);
  if (rest.size() != of_words + header.conversations * sizeof(Entry)) return false;
  if (header.tokens <= kReadWhole && crc32c(rest, 0, report_bytes("reading tokens", rest.size())) != header.crc) return false;
  tokens_ = int64_t(header.tokens);
  conversations_ = int64_t(header.conversations);
  largest_ = int32_t(header.largest);
  words_ = reinterpret_cast<const uint32_t*>(rest.data());
  index_ = reinterpret_cast<const Entry*>(rest.data() + of_words);
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", (unsigned long long)content);
  identity_ = text;
  return conversations_ > 0 && is_index(std::span(index_, size_t(conversations_)), tokens_);
}

int32_t ChatCache::id(int64_t conversation, int64_t i) const {
  const auto id = int32_t(words_[index_[conversation].begin + i] & kId);
  if (id > largest_)
    fail(ErrorCode::bad_file, path_, "is damaged: conversation ", conversation, " has the id ", id, ", the largest is ", largest_,
         "; remove the file, and the data is tokenised again");
  return id;
}

}  // namespace weft
