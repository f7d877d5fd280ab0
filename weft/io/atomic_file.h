// A file that appears whole or not at all: written under a temporary name in the same folder, synced, renamed to its
// name, and the folder synced. Killed at any moment, the old file or the new one is there, never a part of one.
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

  std::string path_, temporary_;
  int file_ = -1;
};

// Names an AtomicFile left behind by a process that was killed end in this.
inline constexpr std::string_view kTemporarySuffix = ".incomplete";

// Removes them from a folder that nobody else is writing to; a folder that is not there has none.
void remove_incomplete(const std::string& folder);

// Makes what was renamed or created in `folder` survive a power cut.
void sync_folder(const std::string& folder);

}  // namespace weft
