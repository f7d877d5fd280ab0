#include "weft/io/raw_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/check.h"
#include "weft/io/byte_stream.h"
#include "weft/io/checksum.h"

namespace weft {

RawFile::RawFile(std::string path) : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (file_ < 0) fail(ErrorCode::bad_file, path_, "cannot be opened: ", std::strerror(errno));
  try {
    stamp_ = stamp_of(file_, path_);
    block_.resize(ByteStream::kBlock);
  } catch (...) {
    ::close(file_);
    throw;
  }
#ifdef POSIX_FADV_SEQUENTIAL
  ::posix_fadvise(file_, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
}

RawFile::~RawFile() { ::close(file_); }

std::span<const char> RawFile::next() {
  size_t count = 0;
  while (!ended_ && count < block_.size()) {
    const ssize_t got = ::read(file_, block_.data() + count, block_.size() - count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::bad_file, path_, "cannot be read: ", std::strerror(errno));
    ended_ = got == 0;
    count += size_t(got);
  }
  const std::span<const char> block(block_.data(), count);
  done_ += int64_t(count);
  if (count > 0) hash_ = xxh64(std::as_bytes(block), hash_);
  if (ended_ || done_ > stamp_.bytes) check_unchanged();
  return block;
}

void RawFile::check_unchanged() const {
  const FileStamp now = stamp_of(file_, path_);
  const int64_t bytes = ended_ && now.bytes == stamp_.bytes ? done_ : now.bytes;  // it can have grown again
  if (bytes != stamp_.bytes)
    fail(ErrorCode::bad_file, path_, bytes < stamp_.bytes ? "shrank" : "grew", " while it was read: it had ", stamp_.bytes,
         " bytes, and now has ", bytes, "; start again when nothing writes to it");
  if (now != stamp_) fail(ErrorCode::bad_file, path_, "was changed while it was read; start again when nothing writes to it");
}

}  // namespace weft
