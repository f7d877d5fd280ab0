#include "weft/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "weft/base/error.h"

namespace weft {
namespace {

class SafeTensorsTest : public testing::Test {
 protected:
  // A file with this JSON header and this many bytes of data.
  std::string file(const std::string& header, size_t data, uint64_t claimed = UINT64_MAX) {
    const uint64_t length = claimed == UINT64_MAX ? header.size() : claimed;
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << header << std::string(data, '\1');
    return path_;
  }
  void expect_refused(const std::string& path, const std::string& reason) {
    try {
      SafeTensors reader(path);
      FAIL() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_ = (std::filesystem::temp_directory_path() / ("weft_safetensors_" + std::to_string(::getpid()))).string();
};

TEST_F(SafeTensorsTest, reads_entries_and_metadata) {
  const SafeTensors reader(file(R"({"__metadata__":{"made":"here"},"a":{"dtype":"I32","shape":[2,1],"data_offsets":[0,8]}})", 8));
  EXPECT_EQ(reader.metadata().at("made"), "here");
  EXPECT_EQ(reader.at("a").shape, Shape({2, 1}));
  int32_t first;
  std::memcpy(&first, reader.at("a").bytes.data(), 4);
  EXPECT_EQ(first, 0x01010101);
  EXPECT_THROW(reader.at("b"), Error);
}

TEST_F(SafeTensorsTest, damaged_files_are_refused_by_name) {
  expect_refused("/nowhere/model.safetensors", "cannot be opened");
  expect_refused("/tmp", "not a regular file");
  expect_refused(file("{}", 0, 1000), "claims a header");
  expect_refused(file("{}", 0, UINT64_MAX - 1), "claims a header");
  expect_refused(file("{", 4), "not a JSON object");
  expect_refused(file("[]", 4), "not a JSON object");
  expect_refused(file(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8), "F64");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8), "does not fill");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4), "lies at bytes");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "lies at bytes");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "not a number of bytes");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "lacks dtype");
  expect_refused(file(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1), "7 axes");
}

TEST_F(SafeTensorsTest, a_file_shorter_than_its_header_length_is_refused) {
  std::ofstream(path_, std::ios::binary) << "abc";
  expect_refused(path_, "too short");
}

}  // namespace
}  // namespace weft
