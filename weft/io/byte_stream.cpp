#include "weft/io/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "weft/base/check.h"
#include "weft/io/raw_file.h"

namespace weft {
namespace {

// Turns the blocks of a file into text.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Writes to `out` and returns how many bytes; 0 only at the end of the file.
  virtual size_t read(std::span<char> out) = 0;
};

class Plain : public Decoder {
 public:
  explicit Plain(RawFile& file) : file_(file) {}
  size_t read(std::span<char> out) override {
    if (block_.empty()) block_ = file_.next();
    const size_t count = std::min(out.size(), block_.size());
    std::memcpy(out.data(), block_.data(), count);
    block_ = block_.subspan(count);
    return count;
  }

 private:
  RawFile& file_;
  std::span<const char> block_;
};

// One or more gzip members in a row (pigz, bgzip and concatenation write several), possibly padded with zeros.
class Gzip : public Decoder {
 public:
  explicit Gzip(RawFile& file) : file_(file) {
    if (::inflateInit2(&stream_, 15 + 16) != Z_OK) fail(ErrorCode::out_of_memory, file.path(), "zlib cannot start");  // 16: gzip
  }
  ~Gzip() override { ::inflateEnd(&stream_); }

  size_t read(std::span<char> out) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    const auto room = uInt(std::min(out.size(), size_t(1) << 30));
    stream_.avail_out = room;
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0 && !refill()) break;
      if (between_ && !begin_member()) continue;
      inflate_some();
    }
    return room - stream_.avail_out;
  }

 private:
  // False at the end of the file, which must be the end of a member.
  bool refill() {
    const auto block = file_.next();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(block.data()));
    stream_.avail_in = uInt(block.size());
    if (!block.empty()) return true;
    if (!between_) fail(ErrorCode::bad_file, file_.path(), "is truncated: its gzip data ends after ", file_.done(), " bytes");
    return false;
  }
  // Skips padding. False: there is nothing else in this block.
  bool begin_member() {
    while (members_ > 0 && stream_.avail_in > 0 && *stream_.next_in == 0) ++stream_.next_in, --stream_.avail_in;
    if (stream_.avail_in == 0) return false;
    between_ = false;
    return true;
  }
  void inflate_some() {
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      ++members_;
      between_ = true;
      ::inflateReset(&stream_);
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      fail(code == Z_MEM_ERROR ? ErrorCode::out_of_memory : ErrorCode::bad_file, file_.path(),
           "is not valid gzip: ", stream_.msg ? stream_.msg : "damaged data", ", at byte ", file_.done() - int64_t(stream_.avail_in));
    }
  }

  RawFile& file_;
  z_stream stream_{};
  bool between_ = true;  // before a member, or after the last one
  int64_t members_ = 0;
};

// One or more frames in a row. A frame may need at most 128 MiB of memory (zstd's own default; --long needs more above --long=27).
class Zstd : public Decoder {
 public:
  explicit Zstd(RawFile& file) : file_(file), stream_(::ZSTD_createDStream()) {
    if (!stream_) fail(ErrorCode::out_of_memory, file.path(), "libzstd cannot start");
  }
  ~Zstd() override { ::ZSTD_freeDStream(stream_); }

  size_t read(std::span<char> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      if (from_.pos == from_.size && !flushing_ && !refill()) break;
      const size_t before = from_.pos;
      const size_t code = ::ZSTD_decompressStream(stream_, &to, &from_);
      if (::ZSTD_isError(code))
        fail(ErrorCode::bad_file, file_.path(), "is not valid zstd: ", ::ZSTD_getErrorName(code), ", at byte ",
             file_.done() - int64_t(from_.size - before));
      inside_ = code != 0;
      flushing_ = to.pos == to.size && inside_;  // there may be more of what was read already
    }
    return to.pos;
  }

 private:
  bool refill() {
    const auto block = file_.next();
    from_ = {block.data(), block.size(), 0};
    if (!block.empty()) return true;
    if (inside_) fail(ErrorCode::bad_file, file_.path(), "is truncated: its zstd data ends after ", file_.done(), " bytes");
    return false;
  }

  RawFile& file_;
  ZSTD_DStream* const stream_;
  ZSTD_inBuffer from_{nullptr, 0, 0};
  bool inside_ = false, flushing_ = false;
};

std::unique_ptr<Decoder> decoder_of(Coding coding, RawFile& file) {
  if (coding == Coding::gzip) return std::make_unique<Gzip>(file);
  if (coding == Coding::zstd) return std::make_unique<Zstd>(file);
  return std::make_unique<Plain>(file);
}

bool ends_with(std::string_view path, std::string_view ending) {
  return path.size() > ending.size() && std::equal(ending.begin(), ending.end(), path.end() - ptrdiff_t(ending.size()),
                                                   [](char a, char b) { return a == std::tolower(uint8_t(b)); });
}

}  // namespace

Coding coding_of(std::string_view path) {
  return ends_with(path, ".gz") ? Coding::gzip : ends_with(path, ".zst") ? Coding::zstd : Coding::none;
}

struct ByteStream::State {
  State(std::string path, Coding coding) : file(std::move(path)), decoder(decoder_of(coding, file)) {}
  RawFile file;
  std::unique_ptr<Decoder> decoder;
};

ByteStream::ByteStream(std::string path, Coding coding) : state_(std::make_unique<State>(std::move(path), coding)) {}
ByteStream::~ByteStream() = default;

size_t ByteStream::read(std::span<char> out) {
  size_t done = 0;
  while (done < out.size()) {
    const size_t count = state_->decoder->read(out.subspan(done));
    if (count == 0) break;
    done += count;
  }
  return done;
}

const std::string& ByteStream::path() const { return state_->file.path(); }
const FileStamp& ByteStream::stamp() const { return state_->file.stamp(); }
int64_t ByteStream::raw_bytes() const { return state_->file.done(); }
uint64_t ByteStream::hash() const { return state_->file.hash(); }

}  // namespace weft
