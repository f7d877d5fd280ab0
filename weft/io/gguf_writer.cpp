#include "weft/io/gguf_writer.h"

#include <algorithm>
#include <cmath>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/io/atomic_file.h"
#include "weft/io/finite.h"
#include "weft/io/gguf.h"

namespace weft {
namespace {

constexpr const char* kWhere = "write_gguf";
constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 32;  // the format's default

template <class T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void append_text(std::string& out, std::string_view text) {
  append(out, uint64_t(text.size()));
  out += text;
}
void append_type(std::string& out, Gguf::Type type) { append(out, uint32_t(type)); }

template <class T>
void append_list(std::string& out, Gguf::Type element, const std::vector<T>& values) {
  append_type(out, Gguf::Type::list);
  append_type(out, element);
  append(out, uint64_t(values.size()));
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, std::string>)
      append_text(out, value);
    else
      append(out, value);
  }
}

uint64_t padded(uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

uint64_t bytes_of(const GgufTensor& tensor) {
  check(tensor.shape.rank() >= 1 && tensor.shape[tensor.shape.rank() - 1] % tensor.type->elements == 0, kWhere, "tensor '", tensor.name,
        "' of shape ", tensor.shape, " has no whole blocks of ", tensor.type->name);
  return uint64_t(tensor.type->bytes_of(tensor.shape.numel()));
}

std::string header_of(const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors) {
  std::string out = "GGUF";
  append(out, kVersion);
  append(out, uint64_t(tensors.size()));
  append(out, metadata.count());
  out += metadata.bytes();
  uint64_t offset = 0;
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) {
    check(names.insert(tensor.name).second, kWhere, "two tensors are named '", tensor.name, "'");
    append_text(out, tensor.name);
    append(out, uint32_t(tensor.shape.rank()));
    for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis) append(out, uint64_t(tensor.shape[axis]));
    append(out, tensor.type->id);
    append(out, offset);
    offset += padded(bytes_of(tensor));
  }
  out.resize(size_t(padded(out.size())));
  return out;
}

// Checks that values are finite and fit their type. Q8_0 stores max |x| / 127 as f16.
void check_range(const std::string& path, const GgufTensor& tensor, std::span<const float> values, int64_t first) {
  constexpr float kMost = 65504.0f * 127;
  check_finite(path, tensor.name, DType::f32, std::as_bytes(values), first);
  if (tensor.type->dtype()) return;
  for (size_t i = 0; i < values.size(); ++i)
    if (std::fabs(values[i]) > kMost)
      fail(ErrorCode::device_fault, path, "tensor '", tensor.name, "' has the value ", values[i], " at index ", first + int64_t(i),
           ", too large for ", tensor.type->name);
}

void write_values(AtomicFile& file, const GgufTensor& tensor) {
  constexpr size_t kPiece = size_t(1) << 20;  // elements, a multiple of every block
  const std::vector<float> values = tensor.make();
  check(int64_t(values.size()) == tensor.shape.numel(), kWhere, "tensor '", tensor.name, "' has ", values.size(), " values for shape ",
        tensor.shape);
  for (size_t at = 0; at < values.size(); at += kPiece) {
    const auto piece = std::span(values).subspan(at, std::min(kPiece, values.size() - at));
    check_range(file.path(), tensor, piece, int64_t(at));
    const std::vector<std::byte> bytes = from_floats(*tensor.type, piece);
    if (const auto dtype = tensor.type->dtype()) check_finite(file.path(), tensor.name, *dtype, bytes, int64_t(at));
    file.write(bytes);
  }
}

}  // namespace

void GgufMetadata::begin(const std::string& key) {
  check(keys_.insert(key).second, kWhere, "the key '", key, "' is put twice");
  append_text(bytes_, key);
}

void GgufMetadata::put(const std::string& key, std::string_view text) {
  begin(key);
  append_type(bytes_, Gguf::Type::text);
  append_text(bytes_, text);
}
void GgufMetadata::put(const std::string& key, bool value) {
  begin(key);
  append_type(bytes_, Gguf::Type::boolean);
  append(bytes_, uint8_t(value));
}
void GgufMetadata::put(const std::string& key, uint32_t value) {
  begin(key);
  append_type(bytes_, Gguf::Type::u32);
  append(bytes_, value);
}
void GgufMetadata::put(const std::string& key, int32_t value) {
  begin(key);
  append_type(bytes_, Gguf::Type::i32);
  append(bytes_, value);
}
void GgufMetadata::put(const std::string& key, float value) {
  begin(key);
  append_type(bytes_, Gguf::Type::f32);
  append(bytes_, value);
}
void GgufMetadata::put(const std::string& key, const std::vector<std::string>& texts) {
  begin(key);
  append_list(bytes_, Gguf::Type::text, texts);
}
void GgufMetadata::put(const std::string& key, const std::vector<int32_t>& values) {
  begin(key);
  append_list(bytes_, Gguf::Type::i32, values);
}
void GgufMetadata::put(const std::string& key, const std::vector<float>& values) {
  begin(key);
  append_list(bytes_, Gguf::Type::f32, values);
}

void write_gguf(const std::string& path, const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors) {
  AtomicFile file(path);
  write_gguf(file, metadata, tensors);
  file.commit();
}

void write_gguf(AtomicFile& file, const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors) {
  const std::string header = header_of(metadata, tensors);
  file.write(header);
  uint64_t done = 0, total = 0;
  for (const GgufTensor& tensor : tensors) total += padded(bytes_of(tensor));
  const auto progress = report_bytes("writing the model", size_t(total));
  for (const GgufTensor& tensor : tensors) {
    progress(int64_t(done));
    write_values(file, tensor);
    const uint64_t bytes = bytes_of(tensor);
    file.write(std::string(size_t(padded(bytes) - bytes), '\0'));
    done += padded(bytes);
  }
  progress(int64_t(done));
}

}  // namespace weft
