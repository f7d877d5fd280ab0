#include "weft/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/io/atomic_file.h"
#include "weft/io/checksum.h"
#include "weft/io/safetensors_writer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kField = "\"crc32c\":\"", kUnknown = "00000000", kPrefix = "checkpoint-", kSuffix = ".safetensors";

std::vector<int64_t> extents(const Shape& shape) {
  std::vector<int64_t> list;
  for (int axis = 0; axis < shape.rank(); ++axis) list.push_back(shape[axis]);
  return list;
}

int64_t bytes_of(const SavedTensor& tensor) { return tensor.shape.numel() * size_of(tensor.dtype); }

// Length and JSON, padded with spaces so that the tensors begin at a multiple of 64 bytes.
std::string header_of(const Values& values, const std::vector<SavedTensor>& tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"]["crc32c"] = kUnknown;
  for (const auto& [name, value] : values) header["__metadata__"][name] = value;
  int64_t at = 0;
  for (const SavedTensor& t : tensors) {
    const int64_t bytes = bytes_of(t);
    check(!header.contains(t.name), "checkpoint", "two tensors have the name ", t.name);
    header[t.name] = {{"dtype", stored_name(t.dtype)}, {"shape", extents(t.shape)}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string json = header.dump();
  json.append((64 - (json.size() + 8) % 64) % 64, ' ');
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json;
}

std::span<const std::byte> bytes_of_text(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string hexadecimal(uint32_t value) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", unsigned(value));
  return text;
}

class ChecksummedWriter {
 public:
  explicit ChecksummedWriter(const std::string& path) : file_(path) {}

  // Looks at every piece of a tensor before it is written.
  using Look = std::function<void(std::span<const std::byte> piece, int64_t first)>;
  void write(std::span<const std::byte> bytes) {
    crc_ = crc32c(bytes, crc_);
    file_.write(bytes);
  }
  void write(const SavedTensor& tensor, const Look& look) {
    constexpr int64_t kPiece = int64_t(8) << 20;
    const int64_t bytes = bytes_of(tensor);
    buffer_.resize(size_t(std::min(bytes, kPiece)));
    for (int64_t at = 0; at < bytes; at += kPiece) {
      const auto piece = std::span(buffer_).first(size_t(std::min(kPiece, bytes - at)));
      tensor.read(at, piece);
      look(piece, at / size_of(tensor.dtype));
      write(piece);
    }
  }
  void commit(size_t crc_at) {
    const std::string crc = hexadecimal(crc_);
    file_.write_at(int64_t(crc_at), bytes_of_text(crc));
    file_.commit();
  }

 private:
  AtomicFile file_;
  uint32_t crc_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace

SavedTensor saved(const NamedTensor& t) {
  const Tensor& tensor = t.tensor;
  check(tensor.contiguous(), "checkpoint", "a tensor must be contiguous to be saved, got strides ", tensor.strides());
  return {t.name, tensor.dtype(), tensor.shape(), [tensor](int64_t offset, std::span<std::byte> into) {
            tensor.device().download(into.data(), *tensor.view().buffer, tensor.view().offset + offset, int64_t(into.size()));
          }};
}

std::vector<SavedTensor> saved(const std::vector<NamedTensor>& tensors) {
  std::vector<SavedTensor> list;
  for (const NamedTensor& tensor : tensors) list.push_back(saved(tensor));
  return list;
}

void write_checkpoint(const std::string& path, const Values& values, const std::vector<NamedTensor>& tensors, Floats floats) {
  write_checkpoint(path, values, saved(tensors), floats);
}

void write_checkpoint(const std::string& path, const Values& values, const std::vector<SavedTensor>& tensors, Floats floats) {
  const std::string header = header_of(values, tensors);
  ChecksummedWriter writer(path);
  writer.write(bytes_of_text(header));
  const auto step = values.find("step");
  const std::string when = step == values.end() ? "" : "after step " + step->second;
  int64_t done = 0, total = 0;
  for (const SavedTensor& t : tensors) total += bytes_of(t);
  const auto tell = report_bytes("writing the checkpoint", size_t(total));
  for (const SavedTensor& t : tensors)
    writer.write(t, [&](std::span<const std::byte> piece, int64_t first) {
      tell(done);
      done += int64_t(piece.size());
      if (floats == Floats::finite) check_finite(path, t.name, t.dtype, piece, first, when);
    });
  writer.commit(header.find(kField) + kField.size());
  tell(total);
}

Checkpoint::Checkpoint(const std::string& path) : file_(path) {
  const MappedFile mapped(path);
  const auto all = mapped.bytes();
  const std::string_view text(reinterpret_cast<const char*>(all.data()), all.size());
  const auto stored = file_.metadata().find("crc32c");
  const size_t field = text.find(kField);
  if (stored == file_.metadata().end() || field == text.npos) fail(ErrorCode::bad_file, path, "is no checkpoint: it has no checksum");
  const size_t at = field + kField.size();
  uint32_t crc = crc32c(all.first(at));
  crc = crc32c(bytes_of_text(kUnknown), crc);
  const auto rest = all.subspan(at + kUnknown.size());
  crc = crc32c(rest, crc, report_bytes("reading the checkpoint", rest.size()));
  if (hexadecimal(crc) != stored->second)
    fail(ErrorCode::bad_file, path, "is damaged: its checksum is ", hexadecimal(crc), ", expected ", stored->second);
}

const std::string* Checkpoint::find(const std::string& name) const {
  const auto found = file_.metadata().find(name);
  return found == file_.metadata().end() ? nullptr : &found->second;
}

const std::string& Checkpoint::value(const std::string& name) const {
  const std::string* found = find(name);
  if (!found) fail(ErrorCode::bad_file, path(), "has no value '", name, "'");
  return *found;
}

int64_t Checkpoint::integer(const std::string& name) const {
  const std::string& text = value(name);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorCode::bad_file, path(), "its value '", name, "' is '", text, "', expected an integer");
  return number;
}

void Checkpoint::restore(const NamedTensor& into) const { restore(into, into.tensor.shape(), {0, into.tensor.numel()}); }

void Checkpoint::restore(const NamedTensor& into, const Shape& whole, Range range) const {
  const SafeTensors::Entry& entry = file_.at(into.name);
  if (entry.dtype != into.tensor.dtype() || entry.shape != whole)
    fail(ErrorCode::bad_file, path(), "its tensor ", into.name, " has shape ", entry.shape, ", expected ", into.tensor.dtype(), " ", whole);
  check(into.tensor.numel() == range.count && range.end() <= whole.numel(), "checkpoint", "elements ", range.first, " to ", range.end(),
        " of ", into.name, " do not fit a tensor of shape ", into.tensor.shape());
  const int64_t size = size_of(*entry.dtype);
  into.tensor.write_bytes(*entry.dtype, entry.bytes.data() + range.first * size, range.count * size);
}

CheckpointFolder::CheckpointFolder(std::string folder, int64_t keep, std::function<void(const std::string&)> notice)
    : folder_(std::move(folder)), keep_(keep), notice_(std::move(notice)) {
  check(keep >= 1, "checkpoint", "keep is ", keep, ", expected 1 or more");
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(ErrorCode::bad_file, folder_, "cannot be created: ", error.message());
}

std::vector<std::string> CheckpointFolder::paths() const {
  std::vector<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) found.push_back(entry.path().string());
  }
  std::sort(found.rbegin(), found.rend());  // steps are written with leading zeros
  return found;
}

std::string CheckpointFolder::save(int64_t step, const Values& values, const std::vector<SavedTensor>& tensors) {
  char name[64];
  std::snprintf(name, sizeof name, "checkpoint-%010lld.safetensors", (long long)step);
  const std::string path = (fs::path(folder_) / name).string();
  write_checkpoint(path, values, tensors, Floats::finite);
  whole_[path] = version_of(path);
  reported_.erase(path);
  remove_old(path);
  return path;
}

CheckpointFolder::Version CheckpointFolder::version_of(const std::string& path) {
  std::error_code gone;
  return {fs::file_size(path, gone), fs::last_write_time(path, gone)};
}

std::unique_ptr<Checkpoint> CheckpointFolder::open(const std::string& path, const char* consequence) {
  try {
    const Version version = version_of(path);
    auto checkpoint = std::make_unique<Checkpoint>(path);
    whole_[path] = version;
    return checkpoint;
  } catch (const Error& error) {
    if (notice_ && reported_.insert(path).second) notice_(join(error.what(), "; ", consequence));
    return nullptr;
  }
}

bool CheckpointFolder::whole(const std::string& path) {
  const auto known = whole_.find(path);
  return (known != whole_.end() && known->second == version_of(path)) || open(path, "it is removed");
}

// A damaged file does not count as kept, whatever its step: a run that passed it over writes lower steps again. What a killed
// process left half written goes as well.
void CheckpointFolder::remove_old(const std::string& written) {
  std::error_code ignored;
  int64_t kept = 1;
  for (const std::string& path : paths()) {
    if (path == written) continue;
    if (kept < keep_ && whole(path))
      ++kept;
    else
      fs::remove(path, ignored);
  }
  std::erase_if(whole_, [](const auto& known) { return !fs::exists(known.first); });
  remove_incomplete(folder_);
}

std::unique_ptr<Checkpoint> CheckpointFolder::newest() {
  for (const std::string& path : paths())
    if (auto checkpoint = open(path, "it is passed over for the one before it")) return checkpoint;
  return nullptr;
}

}  // namespace weft
