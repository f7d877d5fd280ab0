// Reads GGUF, the file format of llama.cpp: metadata by key, then tensors by name, then their data. Versions 2 and 3, little-endian. The
// file stays mapped while the reader or a tensor borrowed from it lives.
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

// Whether a path is that of a GGUF file: a regular file of that name or with the format's first bytes.
bool is_gguf(const std::string& path);

class Gguf {
 public:
  enum class Type : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, list, u64, i64, f64 };
  struct Value {
    Type type;
    std::span<const std::byte> bytes;  // of a text: the text; of a list: its elements
    Type element = Type::u8;           // of a list
    uint64_t count = 0;                // of a list
  };
  struct Entry {
    const GgufType* type;
    Shape shape;  // rows first: the order of extents in the file is the reverse
    std::span<const std::byte> bytes;
  };

  // Validates everything: counts and lengths against the size of the file, duplicate keys and names, types, shapes, offsets that are
  // aligned, inside the file and do not overlap. Nothing is allocated by a count that the file claims. Throws bad_file or unsupported
  // naming the file, the key or tensor and what was expected.
  explicit Gguf(const std::string& path);

  const std::string& path() const { return path_; }
  const std::shared_ptr<MappedFile>& mapping() const { return file_; }
  const std::map<std::string, Value, std::less<>>& metadata() const { return metadata_; }
  const std::map<std::string, Entry, std::less<>>& tensors() const { return tensors_; }
  bool contains(std::string_view tensor) const { return tensors_.contains(tensor); }

  // The value of a key: nullopt if it is absent; throws bad_file naming the key if it has another type or is out of range. The versions
  // without `find` throw if it is absent.
  std::optional<std::string> find_text(std::string_view key) const;
  std::optional<int64_t> find_integer(std::string_view key, int64_t least = 0, int64_t most = std::numeric_limits<int32_t>::max()) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<bool> find_boolean(std::string_view key) const;
  std::string text(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t least = 0, int64_t most = std::numeric_limits<int32_t>::max()) const;
  double number(std::string_view key) const;

  // Lists; empty if the key is absent. Texts point into the mapped file.
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<float> numbers(std::string_view key) const;

  // The value as short text, for people: "[600 texts]".
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
