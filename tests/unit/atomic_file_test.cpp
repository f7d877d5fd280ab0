#include "weft/io/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/observed.h"
#include "tests/unit/small_files.h"
#include "weft/base/error.h"
#include "weft/io/atomic_files.h"
#include "weft/io/checksum.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("weft_atomic_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

size_t files_in(const fs::path& folder) { return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator())); }

TEST(atomic_file, appears_whole_when_committed) {
  const Folder folder;
  const fs::path path = folder.path / "a";
  std::ofstream(path) << "old";
  {
    AtomicFile file(path);
    file.write("____, new");
    file.write_at(0, std::as_bytes(std::span("this", 4)));
    EXPECT_EQ(contents(path), "old");
    file.commit();
  }
  EXPECT_EQ(contents(path), "this, new");
  EXPECT_EQ(files_in(folder.path), 1u);
}

TEST(atomic_file, leaves_nothing_when_not_committed) {
  const Folder folder;
  {
    AtomicFile(folder.path / "a").write("lost");
  }
  EXPECT_EQ(files_in(folder.path), 0u);
}

TEST(atomic_file, error_has_the_systems_message) {
  try {
    AtomicFile file("/nonexistent/folder/a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/folder/a: cannot be created: No such file"), std::string::npos) << error.what();
  }
}

TEST(atomic_file, failed_write_is_an_error) {
  const Folder folder;
  const SmallFiles limit(16);
  AtomicFile file(folder.path / "a");
  file.write("fits");
  try {
    file.write("this does not fit any more");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a: cannot be written: File too large"), std::string::npos) << error.what();
  }
}

TEST(atomic_file, concurrent_writers_of_one_file) {
  const Folder folder;
  AtomicFile first(folder.path / "a"), second(folder.path / "a");
  EXPECT_EQ(files_in(folder.path), 2u);
  first.write("first");
  second.write("second");
  second.commit();
  EXPECT_EQ(contents(folder.path / "a"), "second");
  first.commit();
  EXPECT_EQ(contents(folder.path / "a"), "first");
  EXPECT_EQ(files_in(folder.path), 1u);
}

TEST(atomic_file, removes_files_of_dead_writers_only) {
  const Folder folder;
  const pid_t killed = ::fork();
  if (killed == 0) {
    AtomicFile file(folder.path / "killed");
    file.write("half");
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(killed, nullptr, 0), killed);
  std::ofstream(folder.path / "old.123.incomplete") << "of a version without locks";
  std::ofstream(folder.path / "notes") << "not ours";
  fs::create_symlink(folder.path / "notes", folder.path / "link.incomplete");
  AtomicFile living(folder.path / "living");
  living.write("whole");
  EXPECT_EQ(files_in(folder.path), 5u);
  remove_incomplete(folder.path);
  EXPECT_EQ(files_in(folder.path), 3u);
  living.commit();
  EXPECT_EQ(contents(folder.path / "living"), "whole");
  EXPECT_EQ(contents(folder.path / "notes"), "not ours");
  remove_incomplete(folder.path / "nowhere");
}

TEST(atomic_files, all_are_renamed_or_none) {
  const Folder folder;
  std::ofstream(folder.path / "a") << "old";
  {
    AtomicFiles files;
    files.add(folder.path / "a", "new");
    files.add(folder.path / "x/y/b", "b");
    EXPECT_EQ(contents(folder.path / "a"), "old");
  }
  EXPECT_EQ(contents(folder.path / "a"), "old");
  EXPECT_EQ(files_in(folder.path), 1u);  // without x
  fs::create_directories(folder.path / "c");
  {
    AtomicFiles files;
    files.add(folder.path / "a", "new");
    EXPECT_THROW(files.add(folder.path / "c"), Error);        // a folder
    EXPECT_THROW(files.add(folder.path / "a" / "d"), Error);  // below a file
    files.add(folder.path / "x/y/b", "b");
    files.commit();
  }
  EXPECT_EQ(contents(folder.path / "a"), "new");
  EXPECT_EQ(contents(folder.path / "x/y/b"), "b");
  EXPECT_EQ(files_in(folder.path), 3u);
}

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// RFC 3720, appendix B.4.
TEST(checksum, crc32c_matches_the_published_values) {
  EXPECT_EQ(crc32c(bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(bytes(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(crc32c(bytes(std::string(32, '\xff'))), 0x62A8AB43u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(checksum, crc32c_can_be_continued) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32c(bytes(text.substr(cut)), crc32c(bytes(text.substr(0, cut)))), crc32c(bytes(text)));
}

// Values of the reference implementation (xxhsum -H64).
TEST(checksum, xxh64_matches_the_published_values) {
  EXPECT_EQ(xxh64({}), 0xEF46DB3751D8E999u);
  EXPECT_EQ(xxh64(bytes("a")), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(xxh64(bytes("abc")), 0x44BC2CF5AD770999u);
  EXPECT_EQ(xxh64(bytes("Nobody inspects the spammish repetition")), 0xFBCEA83C8A378BF1u);
}

}  // namespace
}  // namespace weft
