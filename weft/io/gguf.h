// Reads GGUF, the file format of llama.cpp (versions 2 and 3, little-endian): metadata by key, descriptions of tensors, then their data.
// The file stays mapped while the reader or a tensor that borrows from it exists.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/shape.h"
#include "weft/io/gguf_blocks.h"
#include "weft/io/mapped_file.h"

namespace weft {

// Whether `path` is a GGUF file: a regular file named *.gguf or beginning with the format's magic bytes.
bool is_gguf(const std::string& path);

class Gguf {
 public:
  enum class Type : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, list, u64, i64, f64 };
  struct Value {
    Type type;
    std::span<const std::byte> bytes;  // for a text or a list: without the length or count that precedes it
    Type element = Type::u8;           // for a list: type of its elements
    uint64_t count = 0;                // for a list: number of its elements
  };
  struct Entry {
    const GgufType* type;
    Shape shape;  // row-major order; the file stores the extents in reverse
    std::span<const std::byte> bytes;
  };

  // Validates the whole header: counts and lengths against the size of the file, unique keys and names, types, shapes, and offsets, which
  // must be aligned, inside the file and not overlap. No allocation is sized by an unchecked count. Throws bad_file or unsupported with the
  // file, the key or tensor, and what was expected.
  explicit Gguf(const std::string& path);

  const std::string& path() const { return path_; }
  const std::shared_ptr<MappedFile>& mapping() const { return file_; }
  const std::map<std::string, Value, std::less<>>& metadata() const { return metadata_; }
  const std::map<std::string, Entry, std::less<>>& tensors() const { return tensors_; }
  bool contains(std::string_view tensor) const { return tensors_.contains(tensor); }

  // The value of a key, or nullopt if it is absent. Throws bad_file with the key if it has another type or is out of range. The functions
  // without `find` also throw if it is absent.
  std::optional<std::string> find_text(std::string_view key) const;
  std::optional<int64_t> find_integer(std::string_view key, int64_t least = 0, int64_t most = std::numeric_limits<int32_t>::max()) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<bool> find_boolean(std::string_view key) const;
  std::string text(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t least = 0, int64_t most = std::numeric_limits<int32_t>::max()) const;
  double number(std::string_view key) const;

  // The elements of a list; empty if the key is absent. Texts point into the mapped file.
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<float> numbers(std::string_view key) const;

  // The value as a short text for display: "[600 texts]".
  std::string shown_value(const Value& value) const;

 private:
  const Value* find(std::string_view key) const;
  [[noreturn]] void lacks(std::string_view key) const;
  [[noreturn]] void has_other_type(std::string_view key, const Value& value, const char* expected) const;

  std::string path_;
  std::shared_ptr<MappedFile> file_;
  std::map<std::string, Value, std::less<>> metadata_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace weft
