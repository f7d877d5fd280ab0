// The device for tests of whole models and runs: the CPU, or the one named by WEFT_TEST_DEVICE. On a machine with a GPU:
//   WEFT_TEST_DEVICE=cuda ctest -L unit
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "weft/backends/open.h"

namespace weft {

inline std::string test_device() {
  const char* named = std::getenv("WEFT_TEST_DEVICE");
  return named ? named : "cpu";
}
inline bool on_cpu() { return test_device() == "cpu"; }

}  // namespace weft

// Skips what only the CPU guarantees.
#define WEFT_CPU_PROMISE() \
  if (!weft::on_cpu()) GTEST_SKIP() << "a promise of the CPU, this is " << weft::test_device()
