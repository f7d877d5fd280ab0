// Reads a file from its beginning to its end in bounded memory: as it is, or decompressed.
//
// The file must stay as it is meanwhile: at the end of the file its size and time of modification are compared with those at its
// opening, and a change is an error. (Nothing is mapped: a file that shrinks would end the process.)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weft/io/file_stamp.h"

namespace weft {

enum class Coding : uint8_t { none, gzip, zstd };

// By the ending of the name: .gz or .zst, in any case.
Coding coding_of(std::string_view path);

class ByteStream {
 public:
  static constexpr size_t kBlock = size_t(1) << 20;  // bytes of the file read and hashed at once

  // Throws bad_file with the path for a file that cannot be opened; read() for one that is truncated, damaged, or changes.
  ByteStream(std::string path, Coding coding);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Fills `out` as far as there are bytes; less than its size only at the end.
  size_t read(std::span<char> out);

  const std::string& path() const;
  const FileStamp& stamp() const;  // when it was opened
  int64_t raw_bytes() const;       // of the file read so far, before decompression
  uint64_t hash() const;           // of the file, once read() has returned less than it was asked for

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
