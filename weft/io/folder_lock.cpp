#include "weft/io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/check.h"

namespace weft {

FolderLock::FolderLock(const std::string& folder) : file_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (file_ < 0) fail(ErrorCode::bad_file, folder, "cannot be opened: ", std::strerror(errno));
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(file_);
  fail(ErrorCode::bad_file, folder, "another process is writing to this folder");
}

FolderLock::~FolderLock() { ::close(file_); }

}  // namespace weft
