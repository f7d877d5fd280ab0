// Compiled kernels on disk: damaged ones are compiled again, and their number is bounded. For devices that compile kernels at run time:
// WEFT_TEST_DEVICE=metal-sim or cuda.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/unit/observed.h"
#include "tests/unit/test_device.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class KernelCaches : public testing::Test {
 protected:
  void SetUp() override {
    if (on_cpu()) GTEST_SKIP() << "the CPU compiles no kernels while it runs";
    ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    fs::create_directories(folder);
  }
  void TearDown() override {
    ::unsetenv("XDG_CACHE_HOME");
    fs::remove_all(folder);
  }

  // On a device that has compiled nothing yet.
  static std::vector<float> computed() {
    const auto device = open_device(test_device());
    const NoGrad no_grad;
    const Tensor x = Tensor::from_host(*device, {3}, std::vector<float>{1, 2, 4});
    return add(x, x).to_host<float>();
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
  // Like after a power cut: half of the contents, in a separate file.
  static void cut(const fs::path& path) {
    const std::string whole = contents(path);
    fs::remove(path);
    std::ofstream(path, std::ios::binary) << whole.substr(0, whole.size() / 2);
  }

  const fs::path folder = fs::path(testing::TempDir()) / ("kernel_cache_test." + std::to_string(getpid()));
  const std::vector<float> expected{2, 4, 8};
};

TEST_F(KernelCaches, damaged_file_is_rebuilt) {
  EXPECT_EQ(computed(), expected);
  const auto whole = files();
  ASSERT_FALSE(whole.empty());
  std::vector<std::string> bytes;
  for (const fs::path& path : whole) bytes.push_back(contents(path));
  for (const fs::path& path : whole) cut(path);
  EXPECT_EQ(computed(), expected);
  EXPECT_EQ(files(), whole);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(contents(whole[i]).size(), bytes[i].size()) << whole[i];
}

TEST_F(KernelCaches, intact_file_is_used) {
  EXPECT_EQ(computed(), expected);
  std::vector<std::string> bytes;
  for (const fs::path& path : files()) bytes.push_back(contents(path));
  EXPECT_EQ(computed(), expected);
  std::vector<std::string> after;
  for (const fs::path& path : files()) after.push_back(contents(path));
  EXPECT_EQ(after, bytes);
}

}  // namespace
}  // namespace weft
