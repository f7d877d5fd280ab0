#include "weft/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "weft/io/json.h"

namespace weft {
namespace {

struct Stored {
  const char* name;
  int64_t bytes;
  std::optional<DType> dtype;
};
constexpr Stored kStored[] = {
    {"F32", 4, DType::f32}, {"BF16", 2, DType::bf16}, {"F16", 2, DType::f16}, {"I32", 4, DType::i32}, {"U32", 4, DType::u32},
    {"U8", 1, DType::u8},   {"I64", 8, {}},           {"U64", 8, {}},         {"F64", 8, {}},         {"BOOL", 1, {}},
    {"I16", 2, {}},         {"U16", 2, {}},           {"I8", 1, {}},          {"F8_E4M3", 1, {}},     {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},     {"C64", 8, {}},
};

const Stored& stored(const JsonNode& node) {
  const std::string name = node.text();
  for (const Stored& known : kStored)
    if (name == known.name) return known;
  node.refuse("is '", shown(name), "', which is no dtype of the format");
}

// The bytes of a tensor, all extents counted as at least one so that nothing overflows later either.
int64_t bytes_of(const JsonNode& node, const Shape& shape, int64_t element) {
  int64_t bytes = element;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes)) node.refuse("is ", shape, ", whose bytes do not fit in 63 bits");
  return std::count(shape.begin(), shape.end(), 0) ? 0 : bytes;
}

SafeTensors::Entry entry(const JsonNode& info, std::span<const std::byte> data) {
  for (const auto& [key, member] : info.members())
    if (key != "dtype" && key != "shape" && key != "data_offsets") member.refuse("is not part of the format");
  const Stored& type = stored(info.at("dtype"));
  const JsonNode extents = info.at("shape");
  if (extents.list().value().size() > size_t(kMaxRank)) extents.refuse("has ", extents.value().size(), " axes, at most ", kMaxRank, " are supported");
  Shape shape;
  for (const JsonNode& extent : extents.elements()) shape.push_back(extent.integer());
  const JsonNode offsets = info.at("data_offsets");
  const auto ends = offsets.elements();
  if (ends.size() != 2) offsets.refuse("has ", ends.size(), " elements, expected a begin and an end");
  const int64_t begin = ends[0].integer(), end = ends[1].integer();
  if (begin > end || end > int64_t(data.size())) offsets.refuse("is bytes ", begin, " to ", end, " of ", data.size());
  const int64_t bytes = bytes_of(extents, shape, type.bytes);
  if (bytes != end - begin) info.refuse("of shape ", shape, " and dtype ", type.name, " needs ", bytes, " bytes, its data_offsets give ", end - begin);
  return {type.name, type.dtype, shape, data.subspan(size_t(begin), size_t(end - begin))};
}

// The format leaves no byte out and uses none twice.
void check_cover(const std::string& path, const std::map<std::string, SafeTensors::Entry>& entries, std::span<const std::byte> data) {
  std::vector<std::pair<const std::string*, const SafeTensors::Entry*>> order;
  for (const auto& [name, entry] : entries) order.emplace_back(&name, &entry);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->bytes.data(), a.second->bytes.size()) < std::pair(b.second->bytes.data(), b.second->bytes.size());
  });
  const std::byte* reached = data.data();
  for (const auto& [name, entry] : order) {
    const auto begin = entry->bytes.data() - data.data(), expected = reached - data.data();
    if (begin != expected)
      fail(ErrorCode::bad_file, path, "tensor '", shown(*name), "' begins at byte ", begin, " of the data, expected ", expected,
           begin < expected ? ": it overlaps the one before" : ": no tensor holds the bytes between");
    reached = entry->bytes.data() + entry->bytes.size();
  }
  if (reached != data.data() + data.size())
    fail(ErrorCode::bad_file, path, "has ", data.data() + data.size() - reached, " bytes after its last tensor");
}

}  // namespace

SafeTensors::SafeTensors(const std::string& path) : path_(path), file_(std::make_shared<MappedFile>(path)) {
  constexpr uint64_t kMostHeader = 100'000'000;  // as the format's own reader
  const auto bytes = file_->bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof length) fail(ErrorCode::bad_file, path, "is ", bytes.size(), " bytes long, too short for a safetensors header");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - sizeof length) fail(ErrorCode::bad_file, path, "claims a header of ", length, " bytes in a file of ", bytes.size());
  if (length > kMostHeader) fail(ErrorCode::bad_file, path, "has a header of ", length, " bytes, at most ", kMostHeader, " are read");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof length, length);
  if (!text.starts_with('{')) fail(ErrorCode::bad_file, path, "has a header that is not a JSON object");
  const Json document = parse_json(path, text, {.bytes = kMostHeader, .depth = 8});
  const JsonNode header(path, document);
  const auto data = bytes.subspan(sizeof length + length);
  for (const auto& [name, info] : header.members()) {
    if (name != "__metadata__")
      entries_.emplace(name, entry(info, data));
    else
      for (const auto& [key, value] : info.members()) metadata_[key] = value.text();
  }
  check_cover(path, entries_, data);
}

const SafeTensors::Entry& SafeTensors::at(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(ErrorCode::bad_file, path_, "has no tensor named '", name, "'");
  return found->second;
}

DType SafeTensors::dtype(const std::string& name) const {
  const Entry& entry = at(name);
  if (!entry.dtype) fail(ErrorCode::unsupported, path_, "tensor '", name, "' has dtype ", entry.stored, ", which can be listed but not loaded");
  return *entry.dtype;
}

Tensor tensor_from(Device& device, const SafeTensors& file, const std::string& name) {
  const DType dtype = file.dtype(name);
  const SafeTensors::Entry& entry = file.at(name);
  const int64_t bytes = int64_t(entry.bytes.size());
  const auto start = size_t(entry.bytes.data() - file.mapping()->bytes().data());
  std::byte* const memory = file.mapping()->private_bytes().data() + start;
  if (bytes > 0 && reinterpret_cast<uintptr_t>(memory) % uintptr_t(size_of(dtype)) == 0)
    if (auto buffer = device.borrow(memory, bytes, file.mapping())) return Tensor::from_buffer(std::move(buffer), entry.shape, dtype);
  return Tensor::from_bytes(device, entry.shape, dtype, memory, bytes);
}

}  // namespace weft
