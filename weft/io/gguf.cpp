// Parses the file: header, keys, tensors.
#include "weft/io/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "weft/base/check.h"
#include "weft/io/json.h"
#include "weft/io/recognise.h"

namespace weft {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr const char* kAlignment = "general.alignment";

int64_t size_of(Gguf::Type type) {
  switch (type) {
    case Gguf::Type::u8:
    case Gguf::Type::i8:
    case Gguf::Type::boolean: return 1;
    case Gguf::Type::u16:
    case Gguf::Type::i16: return 2;
    case Gguf::Type::u32:
    case Gguf::Type::i32:
    case Gguf::Type::f32: return 4;
    case Gguf::Type::u64:
    case Gguf::Type::i64:
    case Gguf::Type::f64: return 8;
    case Gguf::Type::text:
    case Gguf::Type::list: return 0;
  }
  return 0;
}

// Reads the bytes of a file from front to back. Errors name the item being read.
class Cursor {
 public:
  Cursor(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  void set_what(std::string what) { what_ = std::move(what); }
  size_t at() const { return at_; }

  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - at_)
      fail(ErrorCode::bad_file, path_, "is truncated or damaged: it ends inside ", what_, ", which needs ", count, " bytes at byte ", at_,
           " of ", bytes_.size());
    at_ += size_t(count);
    return bytes_.subspan(at_ - size_t(count), size_t(count));
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text() {
    const auto bytes = take(number<uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  Gguf::Type type() {
    const auto id = number<uint32_t>();
    if (id > uint32_t(Gguf::Type::f64)) fail(ErrorCode::bad_file, path_, what_, " has value type ", id, ", expected 0 to 12");
    return Gguf::Type(id);
  }

  Gguf::Value value() {
    const Gguf::Type kind = type();
    if (kind == Gguf::Type::list) return list();
    if (kind != Gguf::Type::text) return {kind, take(uint64_t(size_of(kind)))};
    return {kind, std::as_bytes(std::span(text()))};
  }

 private:
  Gguf::Value list() {
    const Gguf::Type element = type();
    const auto count = number<uint64_t>();
    if (element == Gguf::Type::list) fail(ErrorCode::unsupported, path_, what_, " is a list of lists, which is not supported");
    const size_t begin = at_;
    if (element == Gguf::Type::text) {
      for (uint64_t i = 0; i < count; ++i) text();
    } else {
      uint64_t bytes = 0;
      if (__builtin_mul_overflow(count, uint64_t(size_of(element)), &bytes))
        fail(ErrorCode::bad_file, path_, what_, " claims ", count, " elements in a file of ", bytes_.size(), " bytes");
      take(bytes);
    }
    return {Gguf::Type::list, bytes_.subspan(begin, at_ - begin), element, count};
  }

  const std::string& path_;
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  std::string what_ = "its header";
};

struct Counts {
  uint64_t tensors, keys;
};

Counts read_header(const std::string& path, std::span<const std::byte> bytes, Cursor& in) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) {
    refuse_other_formats(path, text);
    fail(ErrorCode::bad_file, path, "is not a GGUF file: it begins with '", shown(text.substr(0, kMagic.size())), "', expected 'GGUF'");
  }
  in.take(kMagic.size());
  const auto version = in.number<uint32_t>();
  if ((version & 0xffff) == 0 && version != 0)
    fail(ErrorCode::unsupported, path, "is a big-endian GGUF file; only little-endian ones are supported");
  if (version != 2 && version != 3) fail(ErrorCode::unsupported, path, "has GGUF version ", version, "; 2 and 3 are supported");
  const auto tensors = in.number<uint64_t>();
  return {tensors, in.number<uint64_t>()};
}

// A tensor's description in the file; its bytes begin at `offset` of the data.
struct Described {
  Gguf::Entry entry;
  uint64_t offset, bytes;
};

Described described(const std::string& path, const std::string& name, Cursor& in) {
  constexpr uint32_t kMostAxes = 4;  // the format's limit
  const auto refuse = [&](ErrorCode code, const auto&... parts) { fail(code, path, "tensor '", shown(name), "' ", parts...); };
  const auto axes = in.number<uint32_t>();
  if (axes < 1 || axes > kMostAxes) refuse(ErrorCode::bad_file, "has ", axes, " axes, expected 1 to ", kMostAxes);
  std::vector<int64_t> extents;
  int64_t count = 1;
  for (uint32_t axis = 0; axis < axes; ++axis) {
    const auto extent = in.number<uint64_t>();
    if (extent < 1 || extent > uint64_t(INT64_MAX) || __builtin_mul_overflow(count, int64_t(extent), &count) || count > (INT64_MAX >> 4))
      refuse(ErrorCode::bad_file, "has an extent of ", extent, ", too large or zero");
    extents.insert(extents.begin(), int64_t(extent));
  }
  const auto id = in.number<uint32_t>();
  const GgufType* type = gguf_type(id);
  if (!type) refuse(ErrorCode::unsupported, "has the unknown type ", id, "; supported are ", loadable_gguf_types());
  if (extents.back() % type->elements != 0)
    refuse(ErrorCode::bad_file, "has rows of ", extents.back(), " elements, expected a multiple of ", type->elements, " for type ",
           type->name);
  Shape shape;
  for (int64_t extent : extents) shape.push_back(extent);
  const auto offset = in.number<uint64_t>();
  return {{type, shape, {}}, offset, uint64_t(type->bytes_of(count))};
}

// Throws unless every tensor is aligned, inside the data and does not overlap another.
void check_places(const std::string& path, const std::map<std::string, Described>& tensors, uint64_t alignment, size_t data_begin,
                  size_t size) {
  std::vector<std::pair<const std::string*, const Described*>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(&name, &tensor);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second->offset < b.second->offset; });
  uint64_t reached = 0;
  for (const auto& [name, tensor] : order) {
    const auto refuse = [&](const auto&... parts) { fail(ErrorCode::bad_file, path, "tensor '", shown(*name), "' ", parts...); };
    if (tensor->offset % alignment != 0) refuse("begins at byte ", tensor->offset, " of the data, expected a multiple of ", alignment);
    if (tensor->offset < reached)
      refuse("begins at byte ", tensor->offset, " of the data, inside the tensor before, which ends at ", reached);
    const uint64_t left = size > data_begin ? size - data_begin : 0;
    if (tensor->offset > left || tensor->bytes > left - tensor->offset)
      refuse("has ", tensor->bytes, " bytes at byte ", tensor->offset, " of the data, which has ", left, ": the file is truncated");
    reached = tensor->offset + tensor->bytes;
  }
}

// Refuses one file of a split model: the others have the rest of its tensors, and only the first has the config.
void refuse_split(const Gguf& file) {
  const int64_t files = file.find_integer("split.count").value_or(1);
  if (files > 1)
    fail(ErrorCode::unsupported, file.path(), "is one of ", files,
         " files of a model; join them with llama-gguf-split --merge FIRST_FILE JOINED_FILE");
}

}  // namespace

bool is_gguf(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  if (std::filesystem::path(path).extension() == ".gguf") return true;
  char first[4] = {};
  std::ifstream(path, std::ios::binary).read(first, sizeof first);
  return std::string_view(first, sizeof first) == kMagic;
}

Gguf::Gguf(const std::string& path) : path_(path), file_(std::make_shared<MappedFile>(path)) {
  const auto bytes = file_->bytes();
  Cursor in(path, bytes);
  const Counts counts = read_header(path, bytes, in);
  for (uint64_t i = 0; i < counts.keys; ++i) {
    in.set_what(join("key ", i + 1, " of ", counts.keys));
    const std::string key(in.text());
    in.set_what(join("key '", shown(key), "'"));
    const Value value = in.value();
    if (!metadata_.emplace(key, value).second) fail(ErrorCode::bad_file, path, "has the key '", shown(key), "' twice");
  }
  refuse_split(*this);
  const int64_t alignment = find_integer(kAlignment, 1, 1 << 20).value_or(32);
  if (!std::has_single_bit(uint64_t(alignment)) || alignment < 8)
    fail(ErrorCode::bad_file, path, kAlignment, " is ", alignment, ", expected a power of two from 8");
  std::map<std::string, Described> tensors;
  for (uint64_t i = 0; i < counts.tensors; ++i) {
    in.set_what(join("tensor ", i + 1, " of ", counts.tensors));
    const std::string name(in.text());
    in.set_what(join("the description of tensor '", shown(name), "'"));
    if (!tensors.emplace(name, described(path, name, in)).second)
      fail(ErrorCode::bad_file, path, "has the tensor '", shown(name), "' twice");
  }
  const size_t data = (in.at() + size_t(alignment) - 1) / size_t(alignment) * size_t(alignment);
  check_places(path, tensors, uint64_t(alignment), data, bytes.size());
  for (auto& [name, tensor] : tensors) {
    tensor.entry.bytes = bytes.subspan(data + size_t(tensor.offset), size_t(tensor.bytes));
    tensors_.emplace(name, std::move(tensor.entry));
  }
}

}  // namespace weft
