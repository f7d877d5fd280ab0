// A file that appears whole or not at all: written under a temporary name in the same folder, synced, renamed, and the folder
// synced. A process killed at any moment leaves the old file or the new one, never a partial file.
//
// Temporary names are random, so that writers on any host or in any container never share one. The writer holds a lock (flock) on
// its file until the rename: a temporary file that can be locked was left by a process that died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft {

class AtomicFile {
 public:
  // Throws bad_file with the path and the system's message; write and commit do too.
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // removes the temporary file if not committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Overwrites bytes already written (a header whose content is known last).
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  void sync();    // writes to disk; the name stays temporary
  void commit();  // syncs and renames

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void give_up(const char* what);
  void open_temporary();

  std::string path_, temporary_;
  int file_ = -1;
};

// Sixteen random hexadecimal digits, for names unique among processes on any host.
std::string random_digits();

// Suffix of temporary names.
inline constexpr std::string_view kTemporarySuffix = ".incomplete";

// Removes the temporary files of dead writers from a folder; files of live writers stay, in this process or another. Without file
// locks, a file counts as abandoned a day after its last write. (On NFS the server keeps the locks for all its clients; with the mount
// option local_lock a writer on another host is taken for dead, and its commit then fails with an error.) A missing folder is
// treated as empty.
void remove_incomplete(const std::string& folder);

// Syncs a folder, so that files renamed or created in it survive a power cut.
void sync_folder(const std::string& folder);

}  // namespace weft
