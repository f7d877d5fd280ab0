// Any bytes as a safetensors file: refused with one error, or every byte that an entry claims can be read.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  static const std::string path = (std::filesystem::temp_directory_path() / ("weft_fuzz_" + std::to_string(::getpid()))).string();
  static volatile uint8_t sum = 0;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (!file || std::fwrite(data, 1, size, file) != size || std::fclose(file) != 0) std::abort();
  try {
    const SafeTensors reader(path);
    for (const auto& [name, entry] : reader.entries()) {
      if (entry.dtype && entry.shape.numel() * size_of(*entry.dtype) != int64_t(entry.bytes.size())) std::abort();
      for (const std::byte byte : entry.bytes) sum = uint8_t(sum + uint8_t(byte));
      contiguous_strides(entry.shape);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file) std::abort();
  }
  std::filesystem::remove(path);
  return 0;
}
