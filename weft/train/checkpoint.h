// Checkpoints: every tensor and number that a run needs to resume exactly where it stopped.
//
// A checkpoint is one safetensors file, which any reader of the format can open: tensors by name, everything else as strings of its
// metadata, among them the CRC-32C of the whole file. It is written under a temporary name, synced and renamed. The newest `keep`
// undamaged ones are kept; a damaged one is skipped in favour of the one before it.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "weft/io/finite.h"
#include "weft/io/safetensors.h"
#include "weft/train/optimizer.h"

namespace weft {

using Values = std::map<std::string, std::string>;

// A tensor to be written. Its bytes are read in pieces, from the device or from other ranks, so that a large one needs no second copy.
struct SavedTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::function<void(int64_t offset, std::span<std::byte> into)> read;  // bytes, row-major
};
SavedTensor saved(const NamedTensor& tensor);  // contiguous, of this process
std::vector<SavedTensor> saved(const std::vector<NamedTensor>& tensors);

void write_checkpoint(const std::string& path, const Values& values, const std::vector<SavedTensor>& tensors, Floats floats = Floats::any);
void write_checkpoint(const std::string& path, const Values& values, const std::vector<NamedTensor>& tensors, Floats floats = Floats::any);

// An undamaged checkpoint; the constructor throws bad_file naming the path and the damage.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::string& value(const std::string& name) const;  // throws naming file and value
  const std::string* find(const std::string& name) const;   // null: written before there was such a value
  int64_t integer(const std::string& name) const;
  const SafeTensors& file() const { return file_; }

  // Copies the tensor of this name into `into`, which must have its shape and dtype.
  void restore(const NamedTensor& into) const;
  // Copies a range of its elements; the tensor in the file has the shape `whole`.
  void restore(const NamedTensor& into, const Shape& whole, Range range) const;
  const std::string& checksum() const { return value("crc32c"); }

 private:
  SafeTensors file_;
};

// The checkpoints of one run: <folder>/checkpoint-<step>.safetensors.
class CheckpointFolder {
 public:
  // Creates the folder. `notice` is called once for every damaged file.
  CheckpointFolder(std::string folder, int64_t keep, std::function<void(const std::string&)> notice);

  // Writes a checkpoint, returns its path, and removes damaged ones and those beyond `keep`, never the one just written. Throws
  // device_fault and keeps the earlier ones if a tensor is not finite.
  std::string save(int64_t step, const Values& values, const std::vector<SavedTensor>& tensors);
  template <std::same_as<NamedTensor> T>
  std::string save(int64_t step, const Values& values, const std::vector<T>& tensors) {
    return save(step, values, saved(tensors));
  }
  std::unique_ptr<Checkpoint> newest();    // undamaged; null if there is none
  std::vector<std::string> paths() const;  // newest first

 private:
  // An undamaged file is not checked again unless its size or time has changed.
  struct Version {
    uintmax_t size = 0;
    std::filesystem::file_time_type time = {};
    bool operator==(const Version&) const = default;
  };
  static Version version_of(const std::string& path);
  std::unique_ptr<Checkpoint> open(const std::string& path, const char* consequence);  // null, and a notice, if it is damaged
  bool whole(const std::string& path);
  void remove_old(const std::string& written);

  std::string folder_;
  int64_t keep_;
  std::function<void(const std::string&)> notice_;
  std::map<std::string, Version> whole_;
  std::set<std::string> reported_;  // damaged
};

}  // namespace weft
