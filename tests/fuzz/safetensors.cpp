// Any bytes as a safetensors file: read whole, or refused with one error.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "weft/backends/open.h"
#include "weft/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  static const std::string path = (std::filesystem::temp_directory_path() / ("weft_fuzz_" + std::to_string(::getpid()))).string();
  static const auto device = open_device("cpu");
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (!file || std::fwrite(data, 1, size, file) != size || std::fclose(file) != 0) std::abort();
  try {
    const SafeTensors reader(path);
    for (const auto& [name, entry] : reader.entries())
      if (entry.dtype && tensor_from(*device, reader, name).numel() != entry.shape.numel()) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file) std::abort();
  }
  std::filesystem::remove(path);
  return 0;
}
