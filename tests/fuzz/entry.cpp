// libFuzzer's entry to the target that CMake names.
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::WEFT_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
