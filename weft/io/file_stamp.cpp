#include "weft/io/file_stamp.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/io/byte_stream.h"
#include "weft/io/checksum.h"

namespace weft {
namespace {

constexpr int64_t kSample = 64 << 10, kWhole = 1 << 20;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_ < 0) fail(ErrorCode::bad_file, path, "cannot be opened: ", std::strerror(errno));
  }
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number() const { return file_; }

  // Bytes [from, from + count); fewer if the file ends there.
  std::vector<std::byte> read(int64_t from, int64_t count) const {
    std::vector<std::byte> bytes(static_cast<size_t>(count));
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = ::pread(file_, bytes.data() + done, bytes.size() - done, from + int64_t(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(ErrorCode::bad_file, path_, "cannot be read: ", std::strerror(errno));
      if (got == 0) break;
      done += size_t(got);
    }
    bytes.resize(done);
    return bytes;
  }

 private:
  const std::string path_;
  const int file_;
};

}  // namespace

FileStamp stamp_of(int file, const std::string& path) {
  struct stat info{};
  if (::fstat(file, &info) != 0) fail(ErrorCode::bad_file, path, "cannot be read: ", std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail(ErrorCode::bad_file, path, "is not a regular file");
#ifdef __APPLE__
  const timespec modified = info.st_mtimespec;
#else
  const timespec modified = info.st_mtim;
#endif
  return {int64_t(info.st_size), int64_t(modified.tv_sec) * 1'000'000'000 + modified.tv_nsec};
}

FileStamp stamp_of(const std::string& path) { return stamp_of(OpenFile(path).number(), path); }

uint64_t fingerprint_of(const std::string& path) {
  const OpenFile file(path);
  const int64_t bytes = stamp_of(file.number(), path).bytes;
  if (bytes <= kWhole) return xxh64(file.read(0, bytes), uint64_t(bytes));
  uint64_t hash = uint64_t(bytes);
  for (const int64_t from : {int64_t(0), bytes / 2, bytes - kSample}) hash = xxh64(file.read(from, kSample), hash);
  return hash;
}

uint64_t hash_of_file(const std::string& path) {
  ByteStream stream(path, Coding::none);
  const auto tell = report_bytes("comparing the data", size_t(stream.stamp().bytes));
  std::vector<char> block(ByteStream::kBlock);
  while (stream.read(block) > 0) tell(stream.raw_bytes());
  return stream.hash();
}

}  // namespace weft
