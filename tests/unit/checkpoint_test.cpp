#include "weft/train/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/unit/small_files.h"
#include "weft/backends/open.h"
#include "weft/base/dtype.h"
#include "weft/io/atomic_file.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() { fs::create_directories(folder); }
  ~CheckpointTest() override {
    fs::permissions(folder, fs::perms::owner_all);
    fs::remove_all(folder);
  }
  std::vector<NamedTensor> tensors(float shift) const {
    std::vector<float> values(1000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(i) * 0.37f + shift;
    const Tensor a = Tensor::from_host(*device, {10, 100}, values);
    return {{"a", a}, {"b", cast(a, DType::bf16)}, {"empty", zeros(*device, {0, 3})}, {"step", full(*device, {}, 7, DType::i32)}};
  }
  CheckpointFolder checkpoints(int64_t keep = 3) {
    return {folder.string(), keep, [this](const std::string& text) { notices.push_back(text); }};
  }
  std::shared_ptr<Device> device = open_device("cpu", {.threads = 1});
  const fs::path folder = fs::temp_directory_path() / ("weft_checkpoint_" + std::to_string(::getpid()));
  std::vector<std::string> notices;
};

TEST_F(CheckpointTest, round_trip) {
  const std::string path = (folder / "c.safetensors").string();
  const auto saved = tensors(1);
  write_checkpoint(path, {{"step", "12"}, {"config", "a = \"x\"\n"}}, saved);
  const Checkpoint checkpoint(path);
  EXPECT_EQ(checkpoint.integer("step"), 12);
  EXPECT_EQ(checkpoint.value("config"), "a = \"x\"\n");
  const auto fresh = tensors(2);
  for (const NamedTensor& t : fresh) checkpoint.restore(t);
  EXPECT_EQ(fresh[0].tensor.to_host<float>(), saved[0].tensor.to_host<float>());
  EXPECT_EQ(cast(fresh[1].tensor, DType::f32).to_host<float>(), cast(saved[1].tensor, DType::f32).to_host<float>());
  EXPECT_EQ(fresh[3].tensor.item<int32_t>(), 7);
}

// A rank reads its range of a tensor; ranges that do not fit are refused.
TEST_F(CheckpointTest, restores_a_range) {
  const std::string path = (folder / "c.safetensors").string();
  const auto all = tensors(1);
  write_checkpoint(path, {}, all);
  const Checkpoint checkpoint(path);
  const std::vector<float> values = all[0].tensor.to_host<float>();
  const Tensor part = zeros(*device, {70});
  checkpoint.restore({"a", part}, {10, 100}, {250, 70});
  EXPECT_EQ(part.to_host<float>(), std::vector<float>(values.begin() + 250, values.begin() + 320));
  EXPECT_THROW(checkpoint.restore({"a", part}, {10, 100}, {250, 71}), Error);
  EXPECT_THROW(checkpoint.restore({"a", part}, {10, 100}, {931, 70}), Error);
  EXPECT_THROW(checkpoint.restore({"a", part}, {100, 10}, {250, 70}), Error);
  EXPECT_THROW(checkpoint.restore({"b", part}, {10, 100}, {250, 70}), Error);  // bf16
}

// Bytes that come from elsewhere are asked for in pieces of 8 MiB, in order, each once.
TEST_F(CheckpointTest, reads_in_pieces) {
  const std::string path = (folder / "c.safetensors").string();
  constexpr int64_t kElements = 5'000'001, kPiece = int64_t(8) << 20;
  int64_t next = 0;
  const SavedTensor large{"large", DType::f32, {kElements}, [&](int64_t offset, std::span<std::byte> into) {
                            EXPECT_EQ(offset, next);
                            EXPECT_LE(int64_t(into.size()), kPiece);
                            next += int64_t(into.size());
                            for (size_t i = 0; i < into.size(); i += sizeof(float)) {
                              const float value = float(offset / int64_t(sizeof(float)) + int64_t(i / sizeof(float)));
                              std::memcpy(into.data() + i, &value, sizeof value);
                            }
                          }};
  write_checkpoint(path, {}, std::vector<SavedTensor>{large});
  EXPECT_EQ(next, kElements * int64_t(sizeof(float)));
  const Tensor read = zeros(*device, {2});
  Checkpoint(path).restore({"large", read}, {kElements}, {kElements - 2, 2});
  EXPECT_EQ(read.to_host<float>(), (std::vector<float>{4999999, 5000000}));
}

TEST_F(CheckpointTest, error_names_the_mismatch) {
  const std::string path = (folder / "c.safetensors").string();
  write_checkpoint(path, {{"step", "12x"}}, tensors(1));
  const Checkpoint checkpoint(path);
  EXPECT_THROW(checkpoint.value("position"), Error);
  EXPECT_THROW(checkpoint.integer("step"), Error);
  EXPECT_THROW(checkpoint.restore({"c", zeros(*device, {3})}), Error);
  EXPECT_THROW(checkpoint.restore({"a", zeros(*device, {100, 10})}), Error);
  EXPECT_THROW(checkpoint.restore({"a", zeros(*device, {10, 100}, DType::bf16)}), Error);
  EXPECT_THROW(write_checkpoint(path, {}, {{"a", zeros(*device, {1})}, {"a", zeros(*device, {1})}}), Error);
}

TEST_F(CheckpointTest, refuses_values_that_are_not_finite) {
  auto folder_of = checkpoints(1);
  folder_of.save(1, {{"step", "1"}}, tensors(1));
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const float bad : {NAN, -INFINITY}) {
      auto saved = tensors(2);
      std::vector<float> values(3000, 1e4f);
      values[2345] = bad;
      saved.push_back({"model.w", cast(Tensor::from_host(*device, {3000}, values), dtype)});
      try {
        folder_of.save(2, {{"step", "2"}}, saved);
        FAIL() << dtype << " " << bad;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::device_fault);
        EXPECT_NE(
            std::string(error.what())
                .find(std::isnan(bad) ? "model.w is nan at element 2345 after step 2" : "model.w is -inf at element 2345 after step 2"),
            std::string::npos)
            << error.what();
      }
    }
  ASSERT_EQ(folder_of.paths().size(), 1u);
  EXPECT_EQ(folder_of.newest()->integer("step"), 1);
}

TEST_F(CheckpointTest, detects_any_changed_byte) {
  const std::string path = (folder / "c.safetensors").string();
  write_checkpoint(path, {{"step", "12"}}, tensors(1));
  const int64_t size = int64_t(fs::file_size(path));
  for (int64_t at = 0; at < size; at += at < 700 ? 13 : 97) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char before = char(file.get());
    file.seekp(at).put(char(before ^ 0x10)).flush();
    EXPECT_THROW(Checkpoint{path}, Error) << at;
    file.seekp(at).put(before).flush();
  }
  EXPECT_NO_THROW(Checkpoint{path});
  fs::resize_file(path, uintmax_t(size - 1));
  EXPECT_THROW(Checkpoint{path}, Error);
}

TEST_F(CheckpointTest, loads_the_last_good_one_with_a_notice) {
  CheckpointFolder all = checkpoints();
  EXPECT_EQ(all.newest(), nullptr);
  all.save(10, {{"step", "10"}}, tensors(1));
  const std::string newest = all.save(200, {{"step", "200"}}, tensors(2));
  EXPECT_EQ(all.newest()->integer("step"), 200);
  fs::resize_file(newest, fs::file_size(newest) / 2);
  EXPECT_EQ(all.newest()->integer("step"), 10);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find(newest), std::string::npos);
  EXPECT_NE(notices[0].find("passed over"), std::string::npos);
}

TEST_F(CheckpointTest, keeps_the_newest) {
  CheckpointFolder all = checkpoints(2);
  std::ofstream(folder / ("checkpoint-0000000001.safetensors.1" + std::string(kTemporarySuffix))) << "left by a killed run";
  std::ofstream(folder / "notes.txt") << "not ours";
  for (int64_t step : {1, 2, 3, 1000000}) all.save(step, {}, {});
  const auto paths = all.paths();
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_TRUE(paths[0].ends_with("checkpoint-0001000000.safetensors"));
  EXPECT_TRUE(paths[1].ends_with("checkpoint-0000000003.safetensors"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 3);  // and the note files
}

// A run resumes from the last good checkpoint, below a damaged one of a higher step: what it then saves must be kept.
TEST_F(CheckpointTest, damaged_ones_do_not_count_as_kept) {
  for (int64_t keep : {1, 2, 3}) {
    notices.clear();
    fs::remove_all(folder);
    CheckpointFolder before = checkpoints(3);
    for (int64_t step : {100, 200, 300, 400}) before.save(step, {{"step", std::to_string(step)}}, tensors(1));
    const std::string cut = (folder / "checkpoint-0000000400.safetensors").string(),
                      changed = (folder / "checkpoint-0000000300.safetensors").string();
    fs::resize_file(cut, fs::file_size(cut) / 2);
    std::fstream(changed, std::ios::in | std::ios::out | std::ios::binary).seekp(-5, std::ios::end).put('x');
    CheckpointFolder after = checkpoints(keep);
    EXPECT_EQ(after.newest()->integer("step"), 200);
    for (int64_t step : {210, 220}) {
      const std::string written = after.save(step, {{"step", std::to_string(step)}}, tensors(2));
      EXPECT_EQ(after.paths().front(), written);
      EXPECT_EQ(after.newest()->integer("step"), step);
    }
    std::vector<int64_t> steps;
    for (const std::string& path : after.paths()) steps.push_back(Checkpoint(path).integer("step"));
    std::vector<int64_t> expected = {220, 210, 200};
    expected.resize(size_t(keep));
    EXPECT_EQ(steps, expected);
    ASSERT_EQ(notices.size(), 2u);  // one per damaged checkpoint
    EXPECT_NE(notices[0].find(cut), std::string::npos) << notices[0];
    EXPECT_NE(notices[1].find(changed), std::string::npos) << notices[1];
  }
}

// A checkpoint that is damaged during the run, after it was verified.
TEST_F(CheckpointTest, one_damaged_later_is_replaced_by_a_good_one) {
  CheckpointFolder all = checkpoints(3);
  for (int64_t step : {1, 2, 3}) all.save(step, {{"step", std::to_string(step)}}, tensors(1));
  const std::string damaged = (folder / "checkpoint-0000000003.safetensors").string();
  fs::resize_file(damaged, fs::file_size(damaged) - 1);
  all.save(4, {{"step", "4"}}, tensors(1));
  std::vector<int64_t> steps;
  for (const std::string& path : all.paths()) steps.push_back(Checkpoint(path).integer("step"));
  EXPECT_EQ(steps, (std::vector<int64_t>{4, 2, 1}));
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find(damaged), std::string::npos) << notices[0];
}

TEST_F(CheckpointTest, failed_write_keeps_the_last_good_one) {
  CheckpointFolder all = checkpoints(1);
  all.save(1, {{"step", "1"}}, tensors(1));
  const SmallFiles limit(16);
  try {
    all.save(2, {{"step", "2"}}, tensors(2));
    FAIL() << "a full disk went unnoticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("File too large"), std::string::npos) << error.what();
  }
  EXPECT_EQ(all.newest()->integer("step"), 1);
}

}  // namespace
}  // namespace weft
