#include "weft/io/weight_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "tests/unit/observed.h"
#include "weft/backends/open.h"
#include "weft/base/error.h"
#include "weft/io/safetensors_writer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class WeightFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void text(const std::string& name, const std::string& content) { std::ofstream(path(name), std::ios::binary) << content; }
  Tensor numbers(std::vector<float> values) { return Tensor::from_host(*device_, {int64_t(values.size())}, values); }
  void expect_refused(const std::string& what, const std::string& reason) {
    try {
      WeightFiles files(what);
      ADD_FAILURE() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file) << error.what();
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }

  std::shared_ptr<Device> device_ = open_device("cpu");
  fs::path folder_ = fs::temp_directory_path() / ("weft_weight_files_" + std::to_string(::getpid()));
};

// Reading and rewriting a file of transformers gives the same file.
TEST_F(WeightFilesTest, bytewise_equal_to_the_formats_own_writer) {
  for (const std::string model : {"gpt2", "llama", "qwen3"}) {
    const std::string original = WEFT_GOLDEN_MODELS "/" + model + "/model.safetensors";
    const WeightFiles files(WEFT_GOLDEN_MODELS "/" + model);
    std::vector<NamedTensor> tensors;
    for (const std::string& name : files.names()) tensors.push_back({name, files.tensor(*device_, name)});
    write_safetensors(path("copy.safetensors"), tensors, files.files()[0]->metadata());
    EXPECT_TRUE(contents(original) == contents(path("copy.safetensors"))) << model;
  }
}

TEST_F(WeightFilesTest, every_dtype_survives_and_is_aligned) {
  std::vector<NamedTensor> tensors;
  for (const DType dtype : {DType::u8, DType::f16, DType::i32, DType::bf16, DType::u32, DType::f32}) {
    const std::vector<std::byte> bytes(size_t(3 * size_of(dtype)), std::byte(7));
    tensors.push_back(
        {std::string("é \"") + std::string(name(dtype)), Tensor::from_bytes(*device_, {3, 1}, dtype, bytes.data(), int64_t(bytes.size()))});
  }
  tensors.push_back({"empty", Tensor::empty(*device_, {0, 5}, DType::f32)});
  write_safetensors(path("all.safetensors"), tensors, {{"format", "pt"}});
  const SafeTensors file(path("all.safetensors"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.at("empty").shape, Shape({0, 5}));
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.dtype(name), tensor.dtype());
    const Tensor read = tensor_from(*device_, file, name);
    EXPECT_TRUE(read.numel() == 0 || read.view().buffer->borrowed()) << name;
  }
}

TEST_F(WeightFilesTest, rejects_what_the_format_cannot_store) {
  const Tensor one = numbers({1});
  EXPECT_THROW(write_safetensors(path("x"), {{"a", one}, {"a", one}}), Error);
  EXPECT_THROW(write_safetensors(path("x"), {{"__metadata__", one}}), Error);
  EXPECT_THROW(write_safetensors(path("x"), {{"\xff", one}}), Error);
  EXPECT_THROW(write_safetensors(path("x"), {{"a", Tensor()}}), Error);
  EXPECT_THROW(write_safetensors(path("no such folder/x"), {{"a", one}}), Error);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(WeightFilesTest, shards_are_one_set_of_names) {
  write_safetensors(path("model-00001-of-00002.safetensors"), {{"a", numbers({1, 2})}});
  write_safetensors(path("model-00002-of-00002.safetensors"), {{"b", numbers({3})}, {"c", numbers({4})}});
  text(
      "model.safetensors.index.json",
      R"({"metadata":{"total_size":16},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}})");
  const WeightFiles files(folder_.string());
  EXPECT_EQ(files.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(files.files().size(), 2u);
  EXPECT_EQ(files.tensor(*device_, "a").to_host<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(files.tensor(*device_, "c").to_host<float>(), std::vector<float>{4});
  EXPECT_THROW(files.at("d"), Error);
}

TEST_F(WeightFilesTest, rejects_an_index_with_missing_tensors) {
  expect_refused(folder_.string(), "neither model.safetensors nor");
  expect_refused(path("nothing.safetensors"), "cannot be opened");
  write_safetensors(path("one.safetensors"), {{"a", numbers({1})}});
  const auto index = [&](const std::string& json) {
    text("model.safetensors.index.json", json);
    return folder_.string();
  };
  expect_refused(index(R"({"weight_map":{"b":"one.safetensors"}})"), "$.weight_map.b lists a tensor");
  expect_refused(index(R"({"weight_map":{"a":"two.safetensors"}})"), "$.weight_map.a is 'two.safetensors', which is not in the folder");
  expect_refused(index(R"({"weight_map":{"a":"../one.safetensors"}})"), "file in the same folder");
  expect_refused(index(R"({"weight_map":{"a":"/etc/passwd"}})"), "file in the same folder");
  expect_refused(index(R"({"weight_map":{"a":1}})"), "expected a string");
  expect_refused(index(R"({"weight_map":[]})"), "expected an object");
  expect_refused(index("{}"), "no 'weight_map'");
  expect_refused(index("{"), "not valid JSON");
}

}  // namespace
}  // namespace weft
