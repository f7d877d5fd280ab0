// Any bytes as a safetensors file: rejected with one error, or every byte of every entry can be read.
#include "weft/io/safetensors.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fuzz/targets.h"

namespace weft::fuzz {
namespace {

void read_all(const std::string& path) {
  static volatile uint8_t sum = 0;
  const SafeTensors reader(path);
  for (const auto& [name, entry] : reader.entries()) {
    if (entry.dtype)
      require(entry.shape.numel() * size_of(*entry.dtype) == int64_t(entry.bytes.size()),
              "the bytes of '" + name + "' do not fill its shape");
    for (const std::byte byte : entry.bytes) sum = uint8_t(sum + uint8_t(byte));
    contiguous_strides(entry.shape);
  }
}

}  // namespace

void safetensors(std::string_view bytes) {
  static const std::string path = (std::filesystem::temp_directory_path() / ("weft_fuzz_" + std::to_string(::getpid()))).string();
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  require(bool(file), path + " cannot be written");
  try {
    read_all(path);
  } catch (const Error& error) {
    require_file_error(error);
  }
  std::filesystem::remove(path);
}

}  // namespace weft::fuzz
