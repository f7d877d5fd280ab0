// Reads safetensors: eight bytes of header length, a JSON header, then the tensors' bytes without gaps. The file stays mapped while the
// reader or a tensor borrowed from it lives; entries point into it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "weft/base/dtype.h"
#include "weft/base/shape.h"
#include "weft/io/mapped_file.h"
#include "weft/tensor/tensor.h"

namespace weft {

class SafeTensors {
 public:
  struct Entry {
    std::string stored;          // dtype as spelled in the file: "BF16"
    std::optional<DType> dtype;  // none: listed, not loadable (I64, BOOL, F64 ...)
    Shape shape;
    std::span<const std::byte> bytes;
  };

  // Validates everything: the header's size and depth, duplicate names, known dtypes, shapes that match their byte ranges, ranges that
  // cover the data exactly once. Throws bad_file naming the file and the tensor.
  explicit SafeTensors(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool contains(const std::string& name) const { return entries_.contains(name); }
  const Entry& at(const std::string& name) const;  // throws naming file and tensor
  DType dtype(const std::string& name) const;      // throws unsupported for a dtype that cannot be loaded
  const std::shared_ptr<MappedFile>& mapping() const { return file_; }

 private:
  std::string path_;
  std::shared_ptr<MappedFile> file_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Loads the tensor onto a device. On the CPU it borrows the mapped bytes if they are aligned for their dtype, and keeps the mapping
// alive; writing to it changes this process's pages, seen by every tensor borrowed from the same reader, never the file. Otherwise the
// bytes are copied.
Tensor tensor_from(Device& device, const SafeTensors& file, const std::string& name);

}  // namespace weft
