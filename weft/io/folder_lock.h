// A folder that one process at a time may write to. The lock is the process's: it goes when the process does, however it ends.
#pragma once

#include <string>

namespace weft {

class FolderLock {
 public:
  // Throws bad_file naming the folder where another process holds it. A file system without locks is taken as it is.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace weft
