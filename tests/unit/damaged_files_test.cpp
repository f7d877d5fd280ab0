// Golden files truncated or with flipped bits at many places: each is read, or rejected with one error that names the file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "tests/unit/observed.h"
#include "weft/base/error.h"
#include "weft/io/tokenizer/tokenizer.h"
#include "weft/io/weight_files.h"
#include "weft/models/config_json.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class DamagedFilesTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove(path_); }

  // True if the damaged bytes were rejected. Throwing anything but an Error naming the file fails the test.
  bool refused(const std::string& bytes, const std::function<void(const std::string&)>& read) {
    std::ofstream(path_, std::ios::binary) << bytes;
    try {
      read(path_);
      return false;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported) << error.what();
      EXPECT_EQ(std::string(error.what()).find(path_), 0u) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return true;
    }
  }
  // `header`: the bytes that get most of the damage.
  void damage(const std::string& bytes, size_t header, int times, const std::function<void(const std::string&)>& read) {
    EXPECT_FALSE(refused(bytes, read));
    std::mt19937 chance(7);
    const auto place = [&](size_t most) { return size_t(chance()) % most; };
    for (int i = 0; i < times; ++i) EXPECT_TRUE(refused(bytes.substr(0, place(i % 2 ? header : bytes.size() - 2)), read));
    for (int i = 0; i < times; ++i) {
      std::string flipped = bytes;
      for (int flips = 1 + i % 3; flips > 0; --flips) flipped[place(header)] ^= char(1 << place(8));
      refused(flipped, read);
    }
    for (int i = 0; i < times; ++i) {  // a piece copied to another place
      std::string moved = bytes.substr(0, header);
      const size_t from = place(header), length = place(std::min<size_t>(header - from, 64)) + 1;
      moved.insert(place(header), moved.substr(from, length));
      refused(moved + bytes.substr(header), read);
    }
  }

  const std::string path_ = (fs::temp_directory_path() / ("weft_damaged_" + std::to_string(::getpid()))).string();
};

TEST_F(DamagedFilesTest, safetensors) {
  const std::string bytes = contents(WEFT_GOLDEN_MODELS "/gpt2/model.safetensors");
  uint64_t length = 0;
  std::copy_n(bytes.data(), sizeof length, reinterpret_cast<char*>(&length));
  damage(bytes, 8 + size_t(length), 100, [](const std::string& path) { WeightFiles files(path); });
}

TEST_F(DamagedFilesTest, tokenizer) {
  const std::string bytes = contents(WEFT_GOLDEN_MODELS "/llama/tokenizer.json");
  damage(bytes, bytes.size() - 2, 200, [](const std::string& path) { Tokenizer::load(path).encode("Hello, wörld 123 <s>\n"); });
}

TEST_F(DamagedFilesTest, config) {
  for (const std::string model : {"gpt2", "llama", "qwen3"}) {
    const std::string bytes = contents(WEFT_GOLDEN_MODELS "/" + model + "/config.json");
    damage(bytes, bytes.size() - 2, 300, [](const std::string& path) { read_model_config(path); });
  }
}

}  // namespace
}  // namespace weft
