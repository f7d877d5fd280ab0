// Writes GGUF version 3, little-endian, with tensors aligned to 32 bytes. The file is written atomically (weft/io/atomic_file.h).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/shape.h"
#include "weft/io/gguf_blocks.h"

namespace weft {

class AtomicFile;

// Keys and values in the order of put(). Putting a key twice throws invalid_argument.
class GgufMetadata {
 public:
  void put(const std::string& key, std::string_view text);
  void put(const std::string& key, const char* text) { put(key, std::string_view(text)); }
  void put(const std::string& key, bool value);
  void put(const std::string& key, uint32_t value);
  void put(const std::string& key, int32_t value);
  void put(const std::string& key, float value);
  void put(const std::string& key, const std::vector<std::string>& texts);
  void put(const std::string& key, const std::vector<int32_t>& values);
  void put(const std::string& key, const std::vector<float>& values);

  uint64_t count() const { return keys_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(const std::string& key);

  std::set<std::string> keys_;
  std::string bytes_;
};

// A tensor that is computed when it is written and freed afterwards.
struct GgufTensor {
  std::string name;
  const GgufType* type;  // one that gguf_type_to_write() returns
  Shape shape;           // row-major order
  std::function<std::vector<float>()> make;
};

// Throws bad_file if the file cannot be written, and device_fault with the tensor's name if a value is not finite or overflows its type.
void write_gguf(const std::string& path, const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors);
// The same into a file that the caller commits.
void write_gguf(AtomicFile& file, const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors);

}  // namespace weft
