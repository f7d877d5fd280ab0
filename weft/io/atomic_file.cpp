#include "weft/io/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr int64_t kForgottenAfter = 24 * 60 * 60;  // seconds; used on file systems without locks

// Whether the open file was abandoned by its writer. Holds its lock if so, where the file system has locks.
bool left_behind(int file) {
  struct stat info{};
  if (::fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return true;
  return errno != EWOULDBLOCK && std::time(nullptr) - info.st_mtime > kForgottenAfter;
}

}  // namespace

std::string random_digits() {
  std::random_device random;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", unsigned(random()), unsigned(random()));
  return text;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  do open_temporary();
  while (file_ < 0);
}

// Leaves file_ negative if the caller must try again: the name exists, or remove_incomplete took the lock first.
void AtomicFile::open_temporary() {
  temporary_ = join(path_, ".", random_digits(), kTemporarySuffix);
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0 && errno == EEXIST) return;
  if (file_ < 0) fail(ErrorCode::bad_file, path_, "cannot be created: ", std::strerror(errno));
  ::flock(file_, LOCK_EX);  // fails without effect on file systems without locks
  struct stat info{};
  if (::fstat(file_, &info) == 0 && info.st_nlink == 0) {
    ::close(file_);
    file_ = -1;
  }
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::give_up(const char* what) { fail(ErrorCode::bad_file, path_, what, ": ", std::strerror(errno)); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) give_up("cannot be written");
    bytes = bytes.subspan(size_t(n));
  }
}

void AtomicFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) give_up("cannot be written");
    bytes = bytes.subspan(size_t(n));
    offset += n;
  }
}

void AtomicFile::sync() {
  if (::fsync(file_) != 0) give_up("cannot be synced to disk");
}

// Renames the file before closing it: closing releases the lock.
void AtomicFile::commit() {
  sync();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) give_up("cannot be renamed from its temporary name");
  ::close(file_);
  file_ = -1;
  sync_folder(std::filesystem::path(path_).parent_path().string());
}

void remove_incomplete(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.path().filename().string().ends_with(kTemporarySuffix)) continue;
    // Opened for writing: NFS grants exclusive locks on nothing else. O_NOFOLLOW: no link; O_NONBLOCK: does not block on a pipe.
    const int file = ::open(entry.path().c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) continue;
    if (left_behind(file)) fs::remove(entry.path(), ignored);
    ::close(file);
  }
}

void sync_folder(const std::string& folder) {
  const std::string path = folder.empty() ? "." : folder;
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail(ErrorCode::bad_file, path, "cannot be opened: ", std::strerror(errno));
  const int result = ::fsync(file), error = errno;
  ::close(file);
  // Some file systems report that they cannot sync a folder.
  if (result != 0 && error != EINVAL && error != ENOTSUP)
    fail(ErrorCode::bad_file, path, "cannot be synced to disk: ", std::strerror(error));
}

}  // namespace weft
