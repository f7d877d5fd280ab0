// The GGUF container and its block formats: round trips, values of blocks equal to those of llama.cpp's package, errors for damaged files.
#include "weft/io/gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/unit/gguf_bytes.h"
#include "tests/unit/observed.h"
#include "weft/io/gguf_writer.h"
#include "weft/io/safetensors.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class GgufTest : public testing::Test {
 protected:
  const std::string path_ = (fs::path(testing::TempDir()) / ("weft_gguf_" + std::to_string(::getpid()) + ".gguf")).string();
  void TearDown() override { fs::remove(path_); }

  const std::string& written(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return path_;
  }
  void expect_refused(const std::string& bytes, const std::string& reason, ErrorCode code = ErrorCode::bad_file) {
    try {
      const Gguf reader(written(bytes));
      FAIL() << "was accepted, expected: " << reason;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }

  // A file with one key and two tensors, of 32 floats and of one block of Q8_0.
  static GgufBytes two() {
    GgufBytes file;
    file.words("general.architecture", "llama").tensor("a", {8, 4}, 0, 0).tensor("b", {32, 1}, 8, 128);
    file.data = std::string(128 + 34, '\0');
    return file;
  }
};

std::vector<float> golden_floats(const SafeTensors& file, const std::string& name) {
  std::vector<float> values(file.at(name).bytes.size() / sizeof(float));
  std::memcpy(values.data(), file.at(name).bytes.data(), file.at(name).bytes.size());
  return values;
}

TEST_F(GgufTest, blocks_have_the_values_of_the_reference) {
  const SafeTensors golden(std::string(WEFT_GOLDEN_GGUF) + "/blocks.safetensors");
  int types = 0;
  for (uint32_t id = 0; id < 64; ++id) {
    const GgufType* type = gguf_type(id);
    if (!type || !type->loadable || type->dtype()) continue;
    ++types;
    ASSERT_TRUE(golden.contains(type->name + std::string(".blocks"))) << type->name;
    const std::vector<float> expected = golden_floats(golden, type->name + std::string(".values"));
    std::vector<float> values(expected.size(), NAN);
    to_floats(*type, golden.at(type->name + std::string(".blocks")).bytes, values);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], expected[i], 1e-6 * (1 + std::abs(expected[i]))) << type->name << " " << i;
  }
  EXPECT_EQ(types, 9);
}

TEST_F(GgufTest, q8_0_has_the_bytes_of_the_reference) {
  const SafeTensors golden(std::string(WEFT_GOLDEN_GGUF) + "/blocks.safetensors");
  const auto bytes = from_floats(gguf_type_to_write("q8_0"), golden_floats(golden, "Q8_0.written"));
  const auto expected = golden.at("Q8_0.blocks").bytes;
  ASSERT_EQ(bytes.size(), expected.size());
  EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), bytes.size()), 0);
}

TEST_F(GgufTest, floats_round_as_their_dtypes) {
  const std::vector<float> values{1.0f, -0.3333333f, 65504.0f, 1e-8f};
  for (const char* name : {"f32", "f16", "bf16"}) {
    const GgufType& type = gguf_type_to_write(name);
    std::vector<float> back(values.size());
    to_floats(type, from_floats(type, values), back);
    for (size_t i = 0; i < values.size(); ++i) {
      const float expected = std::string(name) == "f32"   ? values[i]
                             : std::string(name) == "f16" ? float(f16(values[i]))
                                                          : float(bf16(values[i]));
      EXPECT_EQ(back[i], expected) << name << " " << i;
    }
  }
  EXPECT_EQ(message_of([] { gguf_type_to_write("q4_K"); }),
            "export: weights of a GGUF file are written as f32, f16, bf16 or q8_0, got 'q4_K'");
}

TEST_F(GgufTest, keys_and_tensors_round_trip) {
  GgufMetadata metadata;
  metadata.put("a.text", "one");
  metadata.put("a.flag", true);
  metadata.put("a.u32", uint32_t(4000000000));
  metadata.put("a.i32", int32_t(-5));
  metadata.put("a.f32", 0.5f);
  metadata.put("a.texts", std::vector<std::string>{"x", "", "yz"});
  metadata.put("a.ids", std::vector<int32_t>{1, -2, 3});
  metadata.put("a.scores", std::vector<float>{-1.5f, 0});
  EXPECT_EQ(message_of([&] { metadata.put("a.text", "two"); }), "write_gguf: the key 'a.text' is put twice");
  std::vector<float> values(3 * 32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i) - 40;
  std::vector<GgufTensor> tensors;
  for (const char* type : {"f32", "f16", "bf16", "q8_0"})
    tensors.push_back({type, &gguf_type_to_write(type), {3, 32}, [&] { return values; }});
  write_gguf(path_, metadata, tensors);

  const Gguf file(path_);
  EXPECT_EQ(file.text("a.text"), "one");
  EXPECT_EQ(file.find_boolean("a.flag"), true);
  EXPECT_EQ(file.integer("a.u32", 0, UINT32_MAX), 4000000000);
  EXPECT_EQ(file.integer("a.i32", -10, 10), -5);
  EXPECT_EQ(file.number("a.f32"), 0.5);
  EXPECT_EQ(file.texts("a.texts"), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(file.integers("a.ids"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(file.numbers("a.scores"), (std::vector<float>{-1.5f, 0}));
  EXPECT_EQ(file.find_text("none"), std::nullopt);
  for (const auto& [name, entry] : file.tensors()) {
    EXPECT_EQ(entry.shape, (Shape{3, 32}));
    std::vector<float> back(values.size());
    to_floats(*entry.type, entry.bytes, back);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(back[i], values[i], name == "q8_0" ? 0.25 : 0) << name;
  }
  for (const auto& [call, reason] : std::vector<std::pair<std::function<void()>, std::string>>{
           {[&] { file.text("b"); }, "has no key 'b'"},
           {[&] { file.text("a.u32"); }, "a.u32 is a u32, expected a text"},
           {[&] { file.integer("a.text"); }, "a.text is a text, expected an integer"},
           {[&] { file.integer("a.i32"); }, "a.i32 is -5, expected 0 to 2147483647"},
           {[&] { file.number("a.texts"); }, "a.texts is a list of 3 text, expected a number"},
           {[&] { file.find_boolean("a.i32"); }, "a.i32 is a i32, expected true or false"},
           {[&] { file.texts("a.ids"); }, "a.ids is a list of 3 i32, expected a list of texts"},
           {[&] { file.integers("a.scores"); }, "a.scores is a list of 2 f32, expected a list of integers"},
           {[&] { file.numbers("a.texts"); }, "a.texts is a list of 3 text, expected a list of numbers"}})
    EXPECT_EQ(message_of(call), path_ + ": " + reason);
}

TEST_F(GgufTest, values_that_a_type_cannot_hold_leave_the_file_as_it_was) {
  written("before");
  const auto refused = [&](const char* type, float value) {
    return message_of(
        [&] { write_gguf(path_, {}, {{"w", &gguf_type_to_write(type), {1, 32}, [=] { return std::vector<float>(32, value); }}}); });
  };
  for (const std::string& message : {refused("f32", NAN), refused("f16", 70000), refused("q8_0", INFINITY), refused("q8_0", 1e7f)}) {
    EXPECT_NE(message.find(path_), std::string::npos) << message;
    EXPECT_NE(message.find("w"), std::string::npos) << message;
  }
  EXPECT_EQ(contents(path_), "before");
}

TEST_F(GgufTest, other_files_are_named) {
  expect_refused("", "is not a GGUF file");
  expect_refused("{\"a\": 1}", "is not a GGUF file: it begins with '{\"a\"', expected 'GGUF'");
  expect_refused("version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer");
  GgufBytes file = two();
  file.version = 1;
  expect_refused(file.bytes(), "has GGUF version 1; 2 and 3 are supported", ErrorCode::unsupported);
  file.version = 4;
  expect_refused(file.bytes(), "has GGUF version 4", ErrorCode::unsupported);
  file.version = 0x03000000;
  expect_refused(file.bytes(), "is a big-endian GGUF file", ErrorCode::unsupported);
  file.version = 2;
  EXPECT_EQ(Gguf(written(file.bytes())).tensors().size(), 2u);
}

TEST_F(GgufTest, a_part_of_a_split_model_is_named) {
  const auto part = [](uint16_t files) {
    GgufBytes file = two();
    file.key("split.no", 2, GgufBytes::number(uint16_t(0))).key("split.count", 2, GgufBytes::number(files));
    return file.bytes();
  };
  expect_refused(part(3), "is one of 3 files of a model; join them with llama-gguf-split --merge FIRST_FILE JOINED_FILE",
                 ErrorCode::unsupported);
  EXPECT_NO_THROW(Gguf(written(part(1))));
}

TEST_F(GgufTest, every_truncation_is_refused) {
  const std::string whole = two().bytes();
  ASSERT_NO_THROW(Gguf(written(whole)));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string message = message_of([&] { Gguf(written(whole.substr(0, size))); });
    EXPECT_NE(message.find(path_ + ": "), std::string::npos) << size << ": " << message;
  }
  expect_refused(whole.substr(0, 60), "ends inside key");
  expect_refused(whole.substr(0, whole.size() - 1),
                 "tensor 'b' has 34 bytes at byte 128 of the data, which has 161: the file is truncated");
}

TEST_F(GgufTest, wrong_counts_and_places_are_named) {
  const auto number = [](uint64_t value) { return GgufBytes::number(value); };
  const auto with = [](auto change) {
    GgufBytes file = two();
    change(file);
    return file.bytes();
  };
  const uint64_t huge = uint64_t(1) << 60;
  expect_refused(with([&](GgufBytes& f) { f.keys = huge; }), "ends inside key");
  expect_refused(with([&](GgufBytes& f) { f.tensors = huge; }), "tensor '' has 0 axes");  // zeros follow
  expect_refused(with([&](GgufBytes& f) { f.key("k", 8, number(huge)); }), "ends inside key 'k'");
  expect_refused(with([&](GgufBytes& f) { f.key("k", 9, GgufBytes::number(uint32_t(8)) + number(huge)); }), "ends inside key 'k'");
  expect_refused(with([&](GgufBytes& f) { f.key("k", 9, GgufBytes::number(uint32_t(10)) + number(huge * 2)); }), "key 'k' claims");
  expect_refused(with([&](GgufBytes& f) { f.key("k", 13, ""); }), "key 'k' has value type 13, expected 0 to 12");
  expect_refused(with([&](GgufBytes& f) { f.key("k", 9, GgufBytes::number(uint32_t(9)) + number(0)); }), "key 'k' is a list of lists",
                 ErrorCode::unsupported);
  expect_refused(with([&](GgufBytes& f) { f.words("general.architecture", "gpt2"); }), "has the key 'general.architecture' twice");
  expect_refused(with([&](GgufBytes& f) { f.u32("general.alignment", 12); }), "general.alignment is 12, expected a power of two from 8");
  expect_refused(with([&](GgufBytes& f) { f.u32("general.alignment", 0); }), "general.alignment is 0, expected 1 to");
  expect_refused(with([&](GgufBytes& f) { f.tensor("a", {1}, 0, 192); }), "has the tensor 'a' twice");
  expect_refused(with([&](GgufBytes& f) { f.tensor("c", {}, 0, 192); }), "tensor 'c' has 0 axes, expected 1 to 4");
  expect_refused(with([&](GgufBytes& f) { f.tensor("c", {1, 1, 1, 1, 1}, 0, 192); }), "tensor 'c' has 5 axes");
  expect_refused(with([&](GgufBytes& f) { f.tensor("c", {0}, 0, 192); }), "tensor 'c' has an extent of 0");
  expect_refused(with([&](GgufBytes& f) { f.tensor("c", {huge, 64}, 0, 192); }),
                 "tensor 'c' has an extent of 1152921504606846976, too large");
  expect_refused(with([&](GgufBytes& f) { f.tensor("c", {1}, 99, 192); }),
                 "tensor 'c' has the unknown type 99; supported are F32, F16, BF16, Q8_0", ErrorCode::unsupported);
  expect_refused(with([&](GgufBytes& f) { f.tensor("c", {33}, 8, 192); }),
                 "tensor 'c' has rows of 33 elements, expected a multiple of 32 for type Q8_0");
  expect_refused(with([&](GgufBytes& f) { f.tensor("c", {1}, 0, 196); }),
                 "tensor 'c' begins at byte 196 of the data, expected a multiple of 32");
  expect_refused(with([&](GgufBytes& f) { f.tensor("c", {1}, 0, 96); }),
                 "tensor 'c' begins at byte 96 of the data, inside the tensor before");
  expect_refused(with([&](GgufBytes& f) { f.tensor("c", {1}, 0, huge); }),
                 "tensor 'c' has 4 bytes at byte 1152921504606846976 of the data");
}

// A file with flipped bits is refused or read with other values; nothing outside of the file is read.
TEST_F(GgufTest, flipped_bits_do_no_harm) {
  const std::string whole = two().bytes();
  for (size_t bit = 0; bit < whole.size() * 8; bit += 7) {
    std::string flipped = whole;
    flipped[bit / 8] = char(flipped[bit / 8] ^ 1 << bit % 8);
    try {
      const Gguf file(written(flipped));
      for (const auto& [name, entry] : file.tensors()) {
        std::vector<float> values(size_t(entry.shape.numel()));
        if (entry.type->loadable) to_floats(*entry.type, entry.bytes, values);
      }
      for (const auto& [key, value] : file.metadata()) file.shown_value(value);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft
