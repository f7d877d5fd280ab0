// A cache of files: files are intact or absent, and the cache never exceeds its limit.
#include "weft/io/file_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "tests/unit/observed.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class FileCaches : public testing::Test {
 protected:
  FileCaches() { fs::create_directories(folder); }
  ~FileCaches() override { fs::remove_all(folder); }

  static void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  static void age(const fs::path& path, int hours) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& entry : fs::directory_iterator(folder)) sum += int64_t(entry.file_size());
    return sum;
  }

  const fs::path folder = fs::path(testing::TempDir()) / ("file_cache_test." + std::to_string(getpid()));
};

TEST_F(FileCaches, finds_values_by_key) {
  const std::string value("\0binary\n", 8);
  FileCache cache(folder, ".bin", 1 << 20);
  EXPECT_FALSE(cache.find("key"));
  const auto path = cache.keep("key", value);
  ASSERT_TRUE(path);
  const auto found = FileCache(folder, ".bin", 1 << 20).find("key");  // another process
  ASSERT_TRUE(found);
  EXPECT_EQ(found->value, value);
  EXPECT_EQ(found->path, *path);
  EXPECT_EQ(contents(*path).substr(0, 8), value);  // usable in place
  EXPECT_FALSE(cache.find("key "));
  fs::rename(*path, *cache.keep("other", "x"));  // the key in the file counts, not its name
  EXPECT_FALSE(cache.find("other"));
}

TEST_F(FileCaches, damaged_file_is_removed_and_rebuilt) {
  FileCache cache(folder, ".bin", 1 << 20);
  const fs::path path = *cache.keep("a key", "and a value");
  const std::string whole = contents(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    write(path, whole.substr(0, length));
    EXPECT_FALSE(cache.find("a key")) << "cut to " << length;
    EXPECT_FALSE(fs::exists(path));
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string other = whole;
    other[at] = char(other[at] ^ 1);
    write(path, other);
    EXPECT_FALSE(cache.find("a key")) << "byte " << at;
  }
  write(path, whole + "\n");
  EXPECT_FALSE(cache.find("a key"));
  cache.keep("a key", "and a value");
  EXPECT_EQ(cache.find("a key")->value, "and a value");
}

TEST_F(FileCaches, evicts_the_least_recently_used) {
  const std::string value(1000, 'v');
  FileCache cache(folder, ".bin", 10000);
  std::vector<fs::path> paths;
  for (int i = 0; i < 8; ++i) age(paths.emplace_back(*cache.keep(std::to_string(i), value)), 20 - i);
  EXPECT_TRUE(cache.find("0"));  // now the most recently used
  for (int i = 8; i < 12; ++i) {
    paths.push_back(*cache.keep(std::to_string(i), value));
    EXPECT_LE(bytes(), 10000);
  }
  EXPECT_TRUE(fs::exists(paths[0]));
  EXPECT_FALSE(fs::exists(paths[1]));
  EXPECT_TRUE(fs::exists(paths[11]));
}

TEST_F(FileCaches, oversized_file_stays_until_the_next_one) {
  FileCache cache(folder, ".bin", 100);
  cache.keep("large", std::string(1000, 'v'));
  EXPECT_TRUE(cache.find("large"));
  cache.keep("small", "v");
  EXPECT_FALSE(cache.find("large"));
  EXPECT_TRUE(cache.find("small"));
}

TEST_F(FileCaches, removes_temporary_files_of_killed_processes) {
  for (const char* name : {"00.bin.old123", "00.bin.new123", "notes.txt"}) write(folder / name, "x");
  age(folder / "00.bin.old123", 2);
  age(folder / "notes.txt", 2000);
  FileCache(folder, ".bin", 1).keep("key", "value");
  EXPECT_FALSE(fs::exists(folder / "00.bin.old123"));
  EXPECT_TRUE(fs::exists(folder / "00.bin.new123"));  // another process may be writing it
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
}

TEST_F(FileCaches, unwritable_folder_is_not_an_error) {
  FileCache cache(folder / "missing", ".bin", 1 << 20);
  EXPECT_FALSE(cache.keep("key", "value"));
  EXPECT_FALSE(cache.find("key"));
}

TEST_F(FileCaches, the_limit_comes_from_the_environment) {
  EXPECT_EQ(cache_limit("WEFT_NO_SUCH_VARIABLE", 7), 7);
  ::setenv("WEFT_TEST_LIMIT", "3", 1);
  EXPECT_EQ(cache_limit("WEFT_TEST_LIMIT", 7), 3 << 20);
  for (const char* text : {"0", "-1", "3 MiB", "much"}) {
    ::setenv("WEFT_TEST_LIMIT", text, 1);
    EXPECT_NE(message_of([] { cache_limit("WEFT_TEST_LIMIT", 7); }).find(std::string("is '") + text + "', expected a number of MiB"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace weft
