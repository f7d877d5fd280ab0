#include "weft/io/safetensors_writer.h"

#include <algorithm>

#include "weft/io/atomic_file.h"
#include "weft/io/json.h"

namespace weft {
namespace {

constexpr const char* kWhere = "write_safetensors";

using Named = std::pair<std::string, Tensor>;

// Large elements first: every tensor then begins at a multiple of its element's size.
std::vector<const Named*> file_order(const std::vector<Named>& tensors) {
  std::vector<const Named*> order;
  for (const Named& named : tensors) {
    check(named.first != "__metadata__", kWhere, "a tensor cannot be named __metadata__");
    check(named.second.defined(), kWhere, "tensor '", named.first, "' is undefined");
    check(named.second.contiguous(), kWhere, "tensor '", named.first, "' must be contiguous");
    order.push_back(&named);
  }
  // Among elements of one size, the format's own writer puts the dtype named later in its list first: F32, U32, I32 and
  // BF16, F16.
  const auto rank = [](DType dtype) {
    constexpr DType kOrder[] = {DType::f32, DType::u32, DType::i32, DType::bf16, DType::f16, DType::u8};
    return std::find(std::begin(kOrder), std::end(kOrder), dtype) - std::begin(kOrder);
  };
  std::sort(order.begin(), order.end(), [&](const Named* a, const Named* b) {
    return std::pair(rank(a->second.dtype()), std::string_view(a->first)) < std::pair(rank(b->second.dtype()), std::string_view(b->first));
  });
  std::vector<std::string_view> names;
  for (const Named* named : order) names.push_back(named->first);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  check(twice == names.end(), kWhere, "two tensors are named '", twice == names.end() ? "" : *twice, "'");
  return order;
}

std::string header_of(const std::vector<const Named*>& order, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const Named* named : order) {
    const Tensor& tensor = named->second;
    const int64_t end = offset + tensor.numel() * size_of(tensor.dtype());
    header[named->first] = {{"dtype", stored_name(tensor.dtype())},
                            {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::invalid_argument, kWhere, "a name or a metadata value is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

const char* stored_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "F32";
    case DType::bf16: return "BF16";
    case DType::f16: return "F16";
    case DType::i32: return "I32";
    case DType::u32: return "U32";
    case DType::u8: return "U8";
  }
  return "";
}

void write_safetensors(const std::string& path, const std::vector<Named>& tensors, const std::map<std::string, std::string>& metadata, Floats floats) {
  const auto order = file_order(tensors);
  const std::string header = header_of(order, metadata);
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  std::vector<std::byte> bytes;
  for (const Named* named : order) {
    const Tensor& tensor = named->second;
    bytes.resize(size_t(tensor.numel() * size_of(tensor.dtype())));
    tensor.device().download(bytes.data(), *tensor.view().buffer, tensor.view().offset, int64_t(bytes.size()));
    if (floats == Floats::finite) check_finite(path, named->first, tensor.dtype(), bytes);
    file.write(bytes);
  }
  file.commit();
}

}  // namespace weft
