#include "weft/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <bit>
#include <filesystem>
#include <fstream>

#include "weft/backends/open.h"
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

TEST_F(SafeTensorsTest, errors_name_file_and_tensor) {
  expect_refused("/nowhere/model.safetensors", "cannot be opened");
  expect_refused("/tmp", "not a regular file");
  expect_refused(file("{}", 0, 1000), "the file is truncated: 10 of at least 1008 bytes");
  expect_refused(file("[]", 0, 1000), "claims a header");
  expect_refused(file("{}", 0, UINT64_MAX - 1), "claims a header");
  expect_refused(file(" is a text", 0, UINT64_MAX - 1), "is not a safetensors file");
  expect_refused(file("{", 4), "not valid JSON");
  expect_refused(file("[]", 4), "not a JSON object");
  expect_refused(file(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,8]}})", 8), "F99");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8), "needs 4 bytes");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4), "the file is truncated: 66 of 70 bytes");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "$.a.data_offsets has begin 8 after end 0");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "$.a.shape[0] is -2");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8), "$.a.shape[0] is 2.0, expected an integer");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8), "18446744073709551615");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[4611686018427387904,2],"data_offsets":[0,8]}})", 8), "exceeds 63 bits");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})", 0), "exceeds 63 bits");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "data_offsets");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", 8), "$.a.more");
  expect_refused(file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}})", 8), "3 elements");
  expect_refused(file(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1), "7 axes");
  expect_refused(file(R"({"__metadata__":{"a":1}})", 0), "$.__metadata__.a is 1, expected a string");
  expect_refused(file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
                 "'a' twice");
  expect_refused(file("{\"a\":" + std::string(1000, '['), 0), "8 levels");
}

TEST_F(SafeTensorsTest, every_byte_belongs_to_one_tensor) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a + R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  EXPECT_EQ(SafeTensors(file(two("[4,8]", "[0,4]"), 8)).entries().size(), 2u);
  expect_refused(file(two("[0,4]", "[2,6]"), 8), "overlaps");
  expect_refused(file(two("[0,4]", "[0,4]"), 4), "overlaps");
  expect_refused(file(two("[0,4]", "[5,9]"), 9), "there is a gap before it");
  expect_refused(file(two("[0,4]", "[4,8]"), 9), "1 bytes after its last tensor");
}

TEST_F(SafeTensorsTest, dtypes_that_cannot_be_loaded_are_listed) {
  const SafeTensors reader(
      file(R"({"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"m":{"dtype":"BOOL","shape":[2],"data_offsets":[8,10]}})", 10));
  EXPECT_EQ(reader.at("n").stored, "I64");
  EXPECT_FALSE(reader.at("m").dtype);
  EXPECT_THROW(reader.dtype("n"), Error);
}

TEST_F(SafeTensorsTest, cpu_tensor_borrows_the_mapping_and_outlives_the_reader) {
  const auto device = open_device("cpu");
  const int64_t before = device->pool().stats().live;
  Tensor aligned, shifted;
  {
    // The data begin at a multiple of eight; "b" at an odd byte.
    std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("c":{"dtype":"U8","shape":[1],"data_offsets":[8,9]},)"
                         R"("b":{"dtype":"F32","shape":[1],"data_offsets":[9,13]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const SafeTensors reader(file(header, 13));
    aligned = tensor_from(*device, reader, "a");
    shifted = tensor_from(*device, reader, "b");
  }
  EXPECT_TRUE(aligned.view().buffer->borrowed());
  EXPECT_FALSE(shifted.view().buffer->borrowed());
  EXPECT_EQ(device->pool().stats().live, before + 1);
  const float one = std::bit_cast<float>(0x01010101);
  EXPECT_EQ(aligned.to_host<float>(), (std::vector<float>{one, one}));
  EXPECT_EQ(shifted.item<float>(), one);

  // Writing stays in this process.
  const float two = 2;
  device->upload(*aligned.view().buffer, 0, &two, 4);
  EXPECT_EQ(aligned.to_host<float>(), (std::vector<float>{two, one}));
  EXPECT_EQ(tensor_from(*device, SafeTensors(path_), "a").to_host<float>(), (std::vector<float>{one, one}));
}

TEST_F(SafeTensorsTest, rejects_a_file_shorter_than_its_header) {
  std::ofstream(path_, std::ios::binary) << "abc";
  expect_refused(path_, "too short");
}

}  // namespace
}  // namespace weft
