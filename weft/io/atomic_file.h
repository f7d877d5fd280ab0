// A file that appears whole or not at all: written under a temporary name in the same folder, synced, renamed to its
// name, and the folder synced. Killed at any moment, the old file or the new one is there, never a part of one.
//
// A temporary name is random, so that writers on any host or in any container never share one. Its writer holds a lock
// (flock) on it until it is renamed: a temporary file that can be locked was left by a process that died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft {

class AtomicFile {
 public:
  // Throws bad_file naming the path and what the system said; so do write and commit.
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // not committed: the temporary file is removed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Overwrites bytes already written (a header that is known last).
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  void commit();

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void give_up(const char* what);
  void open_temporary();

  std::string path_, temporary_;
  int file_ = -1;
};

// Sixteen random hexadecimal digits, for names that no other process uses, on this host or another.
std::string random_digits();

// Temporary names end in this.
inline constexpr std::string_view kTemporarySuffix = ".incomplete";

// Removes the temporary files of dead writers from a folder; those of living ones stay, in this process or another. Where
// the file system has no locks, a file counts as left behind a day after it was last written. (On NFS the server keeps the
// locks for all its clients; with the mount option local_lock a writer on another host is taken for dead, and its commit
// then fails with an error.) A folder that is not there has none.
void remove_incomplete(const std::string& folder);

// Makes what was renamed or created in `folder` survive a power cut.
void sync_folder(const std::string& folder);

}  // namespace weft
