// Builds the bytes of GGUF files, right and wrong ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct GgufBytes {
  uint32_t version = 3;
  uint64_t keys = 0, tensors = 0;
  std::string key_bytes, tensor_bytes, data;

  template <class T>
  static std::string number(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  static std::string text(std::string_view value) { return number(uint64_t(value.size())) + std::string(value); }

  // A key with a value of this type, given as bytes.
  GgufBytes& key(std::string_view name, uint32_t type, const std::string& value) {
    key_bytes += text(name) + number(type) + value;
    ++keys;
    return *this;
  }
  GgufBytes& u32(std::string_view name, uint32_t value) { return key(name, 4, number(value)); }
  GgufBytes& words(std::string_view name, std::string_view value) { return key(name, 8, text(value)); }

  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type, uint64_t offset) {
    tensor_bytes += text(name) + number(uint32_t(extents.size()));
    for (uint64_t extent : extents) tensor_bytes += number(extent);
    tensor_bytes += number(type) + number(offset);
    ++tensors;
    return *this;
  }

  std::string bytes() const {
    std::string out = "GGUF" + number(version) + number(tensors) + number(keys) + key_bytes + tensor_bytes;
    out.resize((out.size() + 31) / 32 * 32);
    return out + data;
  }
};

}  // namespace weft
