// The bytes of a file in blocks, with a running hash and a check at the end that the file did not change. Not installed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weft/io/file_stamp.h"

namespace weft {

class RawFile {
 public:
  explicit RawFile(std::string path);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  // The next block of ByteStream::kBlock bytes, fewer at the end, empty after it. Valid until the next call.
  std::span<const char> next();

  const std::string& path() const { return path_; }
  const FileStamp& stamp() const { return stamp_; }
  int64_t done() const { return done_; }
  uint64_t hash() const { return hash_; }

 private:
  void check_unchanged() const;

  const std::string path_;
  int file_ = -1;
  FileStamp stamp_;
  int64_t done_ = 0;
  uint64_t hash_ = 0;
  bool ended_ = false;
  std::vector<char> block_;
};

}  // namespace weft
