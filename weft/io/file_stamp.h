// Facts that tell, without reading a file, whether it is still the file that was read before.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

struct FileStamp {
  int64_t bytes = 0;
  int64_t modified = 0;  // nanoseconds since 1970

  bool operator==(const FileStamp&) const = default;
};

// Throws bad_file naming the path if it is not a regular file that can be read.
FileStamp stamp_of(const std::string& path);
FileStamp stamp_of(int file, const std::string& path);  // an open file

// A hash of the first, middle and last 64 KiB, or of the whole of a file of at most 1 MiB: distinguishes files that differ at an end.
uint64_t fingerprint_of(const std::string& path);

// A hash of a file in blocks of 1 MiB: each block's hash is the seed of the next (ByteStream computes the same while it reads).
uint64_t hash_of_file(const std::string& path);

}  // namespace weft
