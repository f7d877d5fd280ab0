// The device that tests of whole models and runs use: the CPU, or what WEFT_TEST_DEVICE names. On a machine with a GPU:
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

// What only the CPU promises.
#define WEFT_CPU_PROMISE() \
  if (!weft::on_cpu()) GTEST_SKIP() << "a promise of the CPU, this is " << weft::test_device()
