// Locks a folder so that only one process writes to it. The lock ends with the process, however that ends.
#pragma once

#include <memory>
#include <string>

namespace weft {

class FolderLock {
 public:
  // Throws bad_file naming the folder if another process holds the lock. On a file system without locks it does nothing.
  explicit FolderLock(const std::string& folder);
  // Null if another process holds the lock.
  static std::unique_ptr<FolderLock> try_lock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FolderLock() = default;
  bool lock(const std::string& folder);
  int file_ = -1;
};

}  // namespace weft
