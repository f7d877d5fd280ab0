#include "weft/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "weft/io/json.h"
#include "weft/io/recognise.h"

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
  node.refuse("is '", shown(name), "', which is not a safetensors dtype");
}

// The size of a tensor in bytes. Extents of 0 count as 1 here, so that no later product overflows.
int64_t bytes_of(const JsonNode& node, const Shape& shape, int64_t element) {
  int64_t bytes = element;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes))
      node.refuse("is ", shape, ", whose size in bytes exceeds 63 bits");
  return std::count(shape.begin(), shape.end(), 0) ? 0 : bytes;
}

// Reads a tensor's header entry: its bytes are [begin, end) of the data.
struct Described {
  SafeTensors::Entry entry;
  int64_t begin, end;
};

Described described(const JsonNode& info) {
  for (const auto& [key, member] : info.members())
    if (key != "dtype" && key != "shape" && key != "data_offsets") member.refuse("is not a key of the format");
  const Stored& type = stored(info.at("dtype"));
  const JsonNode extents = info.at("shape");
  if (extents.list().value().size() > size_t(kMaxRank)) extents.refuse("has ", extents.value().size(), " axes, the limit is ", kMaxRank);
  Shape shape;
  for (const JsonNode& extent : extents.elements()) shape.push_back(extent.integer());
  const JsonNode offsets = info.at("data_offsets");
  const auto ends = offsets.elements();
  if (ends.size() != 2) offsets.refuse("has ", ends.size(), " elements, expected a begin and an end");
  const int64_t begin = ends[0].integer(), end = ends[1].integer();
  if (begin > end) offsets.refuse("has begin ", begin, " after end ", end);
  const int64_t bytes = bytes_of(extents, shape, type.bytes);
  if (bytes != end - begin)
    info.refuse("of shape ", shape, " and dtype ", type.name, " needs ", bytes, " bytes, its data_offsets give ", end - begin);
  return {{type.name, type.dtype, shape, {}}, begin, end};
}

// The size of the data in bytes. The tensors must cover it without gaps or overlaps.
int64_t covered(const std::string& path, const std::map<std::string, Described>& tensors) {
  std::vector<std::pair<const std::string*, const Described*>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(&name, &tensor);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  int64_t reached = 0;
  for (const auto& [name, tensor] : order) {
    if (tensor->begin != reached)
      fail(ErrorCode::bad_file, path, "tensor '", shown(*name), "' begins at byte ", tensor->begin, " of the data, expected ", reached,
           tensor->begin < reached ? ": it overlaps the tensor before" : ": there is a gap before it");
    reached = tensor->end;
  }
  return reached;
}

// The text of the header. The data follows it in the file.
std::string_view header_text(const std::string& path, std::string_view file) {
  constexpr uint64_t kMostHeader = 100'000'000;  // the limit of the format's own reader
  uint64_t length = 0;
  refuse_other_formats(path, file);
  if (file.size() < sizeof length) fail(ErrorCode::bad_file, path, "is ", file.size(), " bytes long, too short for a safetensors header");
  std::memcpy(&length, file.data(), sizeof length);
  const std::string_view rest = file.substr(sizeof length);
  if (length > rest.size() && length <= kMostHeader && rest.starts_with('{'))
    fail(ErrorCode::bad_file, path, "the file is truncated: ", file.size(), " of at least ", sizeof length + length,
         " bytes, it ends inside its header");
  if (length > kMostHeader && !rest.starts_with('{'))
    fail(ErrorCode::bad_file, path, "is not a safetensors file: byte 8 does not begin a JSON object");
  if (length > rest.size()) fail(ErrorCode::bad_file, path, "claims a header of ", length, " bytes in a file of ", file.size());
  if (length > kMostHeader) fail(ErrorCode::bad_file, path, "has a header of ", length, " bytes, the limit is ", kMostHeader);
  if (length == 0 || !rest.starts_with('{')) fail(ErrorCode::bad_file, path, "has a header that is not a JSON object");
  return rest.substr(0, length);
}

}  // namespace

SafeTensors::SafeTensors(const std::string& path) : path_(path), file_(std::make_shared<MappedFile>(path)) {
  const auto bytes = file_->bytes();
  const std::string_view text = header_text(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const Json document = parse_json(path, text, {.bytes = text.size(), .depth = 8});
  std::map<std::string, Described> tensors;
  for (const auto& [name, info] : JsonNode(path, document).members()) {
    if (name != "__metadata__")
      tensors.emplace(name, described(info));
    else
      for (const auto& [key, value] : info.members()) metadata_[key] = value.text();
  }
  const auto data = bytes.subspan(sizeof(uint64_t) + text.size());
  const auto promised = uint64_t(covered(path, tensors));
  if (promised > data.size())
    fail(ErrorCode::bad_file, path, "the file is truncated: ", bytes.size(), " of ", bytes.size() - data.size() + promised, " bytes");
  if (promised < data.size()) fail(ErrorCode::bad_file, path, "has ", data.size() - promised, " bytes after its last tensor");
  for (auto& [name, tensor] : tensors) {
    tensor.entry.bytes = data.subspan(size_t(tensor.begin), size_t(tensor.end - tensor.begin));
    entries_.emplace(name, std::move(tensor.entry));
  }
}

const SafeTensors::Entry& SafeTensors::at(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(ErrorCode::bad_file, path_, "has no tensor named '", name, "'");
  return found->second;
}

DType SafeTensors::dtype(const std::string& name) const {
  const Entry& entry = at(name);
  if (!entry.dtype) fail(ErrorCode::unsupported, path_, "tensor '", name, "' has dtype ", entry.stored, ", which cannot be loaded");
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
