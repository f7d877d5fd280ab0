#include "weft/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/check.h"

namespace weft {
namespace {
// Maps without reserving swap: a writable mapping may exceed memory, since few of its pages are ever written.
#ifdef MAP_NORESERVE
constexpr int kNoReserve = MAP_NORESERVE;
#else
constexpr int kNoReserve = 0;
#endif
}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(ErrorCode::bad_file, path, "cannot be opened: ", std::strerror(errno));
  struct stat info{};
  const bool regular = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  size_ = regular ? size_t(info.st_size) : 0;
  void* memory = size_ ? ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | kNoReserve, file, 0) : nullptr;
  const int error = errno;
  ::close(file);
  if (!regular) fail(ErrorCode::bad_file, path, "is not a regular file");
  if (memory == MAP_FAILED) fail(ErrorCode::bad_file, path, "cannot be mapped: ", std::strerror(error));
  data_ = static_cast<std::byte*>(memory);
}

MappedFile::~MappedFile() {
  if (size_) ::munmap(data_, size_);
}

}  // namespace weft
