// libFuzzer's entry point to the target chosen by CMake.
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::WEFT_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
