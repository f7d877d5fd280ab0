// A file mapped into memory. The mapping is private: writes stay in this process, page by page, and never reach the file. (If another
// process truncates the file while it is mapped, touching the lost pages kills this process with SIGBUS. Replace files by renaming,
// as weft/io/atomic_file does.)
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace weft {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // throws bad_file with the path and the system's message
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
