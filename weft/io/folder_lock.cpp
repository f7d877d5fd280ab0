#include "weft/io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/check.h"

namespace weft {

// False if another process holds the lock.
bool FolderLock::lock(const std::string& folder) {
  file_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file_ < 0) fail(ErrorCode::bad_file, folder, "cannot be opened: ", std::strerror(errno));
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
  ::close(file_);
  file_ = -1;
  return false;
}

FolderLock::FolderLock(const std::string& folder) {
  if (!lock(folder)) fail(ErrorCode::bad_file, folder, "another process is writing to this folder");
}

std::unique_ptr<FolderLock> FolderLock::try_lock(const std::string& folder) {
  std::unique_ptr<FolderLock> lock(new FolderLock());
  return lock->lock(folder) ? std::move(lock) : nullptr;
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace weft
