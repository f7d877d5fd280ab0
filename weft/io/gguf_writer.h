// Writes GGUF version 3, little-endian, tensors aligned to 32 bytes. The file appears whole or not at all.
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

// Keys in the order they are put. Throws invalid_argument for a key put twice.
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
  const GgufType* type;  // that gguf_type_to_write() returned
  Shape shape;           // rows first
  std::function<std::vector<float>()> make;
};

// Throws bad_file if the file cannot be written, device_fault naming the tensor for a value that is not finite or exceeds its type.
void write_gguf(const std::string& path, const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors);
// The same into a file that the caller commits.
void write_gguf(AtomicFile& file, const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors);

}  // namespace weft
