// Reading safetensors: eight bytes of header length, a JSON header, then the tensors' bytes. The file stays mapped as
// long as the reader lives; entries point into it.
#pragma once

#include <map>
#include <string>

#include "weft/base/dtype.h"
#include "weft/base/shape.h"
#include "weft/io/mapped_file.h"

namespace weft {

class SafeTensors {
 public:
  struct Entry {
    DType dtype;
    Shape shape;
    std::span<const std::byte> bytes;
  };

  // Every entry is checked: known dtype, shape that matches its byte range, range inside the file.
  explicit SafeTensors(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const Entry& at(const std::string& name) const;  // throws naming file and tensor

 private:
  std::string path_;
  MappedFile file_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace weft
