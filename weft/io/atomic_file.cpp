#include "weft/io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "weft/base/check.h"

namespace weft {

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(join(path_, ".", ::getpid(), kTemporarySuffix)) {
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) fail(ErrorCode::bad_file, path_, "cannot be created: ", std::strerror(errno));
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

void AtomicFile::commit() {
  if (::fsync(file_) != 0) give_up("cannot be synced to disk");
  const int file = file_;
  file_ = -1;
  const bool closed = ::close(file) == 0;
  if (!closed || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    fail(ErrorCode::bad_file, path_, "cannot be given its name: ", std::strerror(error));
  }
  sync_folder(std::filesystem::path(path_).parent_path().string());
}

void remove_incomplete(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().ends_with(kTemporarySuffix)) fs::remove(entry.path(), ignored);
}

void sync_folder(const std::string& folder) {
  const std::string path = folder.empty() ? "." : folder;
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail(ErrorCode::bad_file, path, "cannot be opened: ", std::strerror(errno));
  const int result = ::fsync(file), error = errno;
  ::close(file);
  // Some file systems have no sync for folders, and say so.
  if (result != 0 && error != EINVAL && error != ENOTSUP) fail(ErrorCode::bad_file, path, "cannot be synced to disk: ", std::strerror(error));
}

}  // namespace weft
