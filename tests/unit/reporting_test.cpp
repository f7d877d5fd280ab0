#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "weft/io/checksum.h"
#include "weft/train/history.h"
#include "weft/train/progress.h"
#include "weft/train/tensorboard.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class Reporting : public testing::Test {
 protected:
  Reporting() { fs::create_directories(folder); }
  ~Reporting() override { fs::remove_all(folder); }
  const fs::path folder = fs::temp_directory_path() / ("weft_reporting_" + std::to_string(::getpid()));
};

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST_F(Reporting, history_resumes_from_its_file_up_to_a_step) {
  const std::string path = (folder / "metrics.jsonl").string();
  {
    History history(path);
    history.add(StepRecord{1, 2.5, 1e-3, 0.75, 1000, 0.5, 0.1});
    history.add(EvaluationRecord{1, 2.25, 0.5});
    history.add(SampleRecord{1, "a", "b\n\"c\""});
    history.add(StepRecord{2, NAN, 1e-3, INFINITY, 1000, 0, 0.2});
    history.add(StepRecord{3, 1.5, 1e-3, 0.5, 1000, 0, 0.3});
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 2, \"lo";  // a truncated line
  const History history(path, 2);
  ASSERT_EQ(history.steps().size(), 2u);
  EXPECT_EQ(history.steps()[0].loss, 2.5);
  EXPECT_EQ(history.steps()[0].utilisation, 0.5);
  EXPECT_TRUE(std::isnan(history.steps()[1].loss));
  ASSERT_EQ(history.evaluations().size(), 1u);
  EXPECT_EQ(history.evaluations()[0].accuracy, 0.5);
  ASSERT_EQ(history.samples().size(), 1u);
  EXPECT_EQ(history.samples()[0].text, "b\n\"c\"");
  const std::string text = contents(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

// Reads the records back: lengths, checksums, and the fields of a scalar.
TEST_F(Reporting, event_files_are_records_with_checksums) {
  std::string path, data;
  {
    TensorBoard board(folder.string());
    board.scalar("loss", 300, 1.25);
    board.text("sample", 300, "hello");
    path = board.path();
    data = contents(path);  // while it is open: killing the process now would lose nothing
  }
  EXPECT_EQ(contents(path), data);
  std::vector<std::string> messages;
  const auto masked = [](std::string_view bytes) {
    const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
    return uint32_t((crc >> 15 | crc << 17) + 0xa282ead8u);
  };
  for (size_t at = 0; at < data.size();) {
    uint64_t length;
    uint32_t length_crc, crc;
    std::memcpy(&length, data.data() + at, 8);
    std::memcpy(&length_crc, data.data() + at + 8, 4);
    EXPECT_EQ(length_crc, masked(std::string_view(data).substr(at, 8)));
    messages.push_back(data.substr(at + 12, length));
    std::memcpy(&crc, data.data() + at + 12 + length, 4);
    EXPECT_EQ(crc, masked(messages.back()));
    at += 16 + length;
  }
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_NE(messages[0].find("brain.Event:2"), std::string::npos);
  const float value = 1.25f;
  const std::string scalar = std::string("\x0a\x04loss\x15") + std::string(reinterpret_cast<const char*>(&value), 4);
  EXPECT_EQ(messages[1].substr(9), std::string("\x10\xac\x02\x2a\x0d\x0a\x0b") + scalar);  // step 300, summary, value
  EXPECT_NE(messages[2].find("hello"), std::string::npos);
}

// A resumed run writes again what a killed run wrote after its last checkpoint.
TEST_F(Reporting, resumed_event_file_discards_later_steps) {
  const std::string data = contents(TensorBoard(folder.string(), 299).path());
  EXPECT_NE(data.find(std::string("\x10\xac\x02\x3a\x02\x08\x01", 7)), std::string::npos);  // step 300, session_log {status START}
}

// TensorBoard reads files in the order of their names, so a later start needs a later, different name.
TEST_F(Reporting, event_file_names_are_ascending) {
  std::vector<std::string> paths;
  for (int64_t done : {0, 0, 7}) paths.push_back(TensorBoard(folder.string(), done).path());
  EXPECT_LT(paths[0], paths[1]);
  EXPECT_LT(paths[1], paths[2]);
  const std::string start("\x3a\x02\x08\x01", 4);
  EXPECT_EQ(contents(paths[0]).find(start), std::string::npos);
  EXPECT_NE(contents(paths[1]).find("\x10\x01" + start), std::string::npos);  // a new start: every step of the first file is discarded
  EXPECT_NE(contents(paths[2]).find("\x10\x08" + start), std::string::npos);
}

TEST(progress, line_fits_its_columns) {
  const StepRecord record{120, 1.23456, 3e-4, 0.8123, 12345, 0.41, 10};
  EXPECT_EQ(progress_line(record, 1000, 1.3, 83, 0),
            " 120/1000 loss 1.2346 (1.3000)  lr 3.00e-04  |g| 0.812  12.3k tok/s  41 % of peak  1:23 left");
  const std::string wide = progress_line(record, 1000, 1.3, 83, 130);
  EXPECT_NE(wide.find("[████░"), std::string::npos) << wide;
  const std::string head = " 120/1000 loss 1.2346";
  EXPECT_EQ(progress_line(record, 1000, 1.3, 83, 100), head + " (1.3000)  lr 3.00e-04  |g| 0.812  12.3k tok/s  41 % of peak  1:23 left");
  EXPECT_EQ(progress_line(record, 1000, 1.3, 83, 80), head + " (1.3000)  lr 3.00e-04  |g| 0.812  12.3k tok/s  1:23 left");
  EXPECT_EQ(progress_line(record, 1000, 1.3, 83, 70), head + "  lr 3.00e-04  |g| 0.812  12.3k tok/s  1:23 left");
  EXPECT_EQ(progress_line(record, 1000, 1.3, 83, 67), head + "  lr 3.0e-4  |g| 0.81  12.3k tok/s  1:23 left");
  EXPECT_EQ(progress_line(record, 1000, 1.3, 83, 60), head + "  lr 3.0e-4  |g| 0.81  1:23 left");
  EXPECT_EQ(progress_line(record, 1000, 1.3, 83, 20), "120 loss 1.2346");
  const std::string rest = " (1.3000)  lr 3.00e-04  |g| 0.812  12.3k tok/s";
  EXPECT_EQ(progress_line(record, 1000, 1.3, 83, 0, 4), head + rest + " on 4 ranks  41 % of peak  1:23 left");
  EXPECT_EQ(progress_line(record, 1000, 1.3, 83, 93, 4), head + rest + " on 4 ranks  1:23 left");
  EXPECT_EQ(progress_line(record, 1000, 1.3, 83, 80, 4), head + rest + "  1:23 left");
}

int columns_of(const std::string& line) {
  return int(std::count_if(line.begin(), line.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

TEST(progress, every_width_shows_the_loss) {
  const StepRecord records[] = {{120, 1.23456, 3e-4, 0.8123, 12345, 0.41, 10},
                                {2000000000, 98765.4321, 1e-12, 123456.7, 1.2e9, 1, 1e6},
                                {7, 1.5e30, 0, 1e-20, 0.5, 0, 1},
                                {7, NAN, 1e-3, INFINITY, 10, 0, 1}};
  const std::string losses[] = {"loss 1.2346", "loss 98765.4321", "loss 1.5e+30", "loss nan"};
  for (size_t i = 0; i < std::size(records); ++i)
    for (int64_t steps : {int64_t(1000), int64_t(2147483647)})
      for (int columns = 1; columns <= 200; ++columns) {
        const std::string line = progress_line(records[i], steps, 1.3, 1e5, columns);
        EXPECT_LT(columns_of(line), std::max(2, columns)) << line;
        EXPECT_TRUE(columns < 20 || line.find(losses[i]) != line.npos) << columns << ": " << line;
        EXPECT_TRUE(columns < 80 || (line.find("  lr ") != line.npos && line.find("  |g| ") != line.npos)) << columns << ": " << line;
      }
}

TEST(progress, number_formats) {
  EXPECT_EQ(duration_text(7.4), "0:07");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(INFINITY), "?");
  EXPECT_EQ(count_text(950), "950");
  EXPECT_EQ(count_text(12345), "12.3k");
  EXPECT_EQ(count_text(1.25e6), "1.25M");
  EXPECT_EQ(count_text(999.9), "1k");
  EXPECT_EQ(count_text(1.51e14), "151T");
}

}  // namespace
}  // namespace weft
