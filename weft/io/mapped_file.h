// A file mapped into memory. The mapping is private: what is written into it stays in this process, page by page, and
// never reaches the file. (A file that another process cuts short while it is mapped cannot be read any more: the
// system ends the process that touches the lost pages. Replace files by renaming, as weft/io/atomic_file does.)
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace weft {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // throws bad_file naming the path and what the system said
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::span<std::byte> private_bytes() { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace weft
