#include "weft/io/safetensors_writer.h"

#include <algorithm>

#include "weft/base/progress.h"
#include "weft/io/atomic_file.h"
#include "weft/io/json.h"

namespace weft {
namespace {

constexpr const char* kWhere = "write_safetensors";

constexpr int64_t kPiece = int64_t(8) << 20;  // bytes downloaded and written at a time

// Orders tensors by element size, largest first: every tensor then starts at a multiple of its element size.
std::vector<const DeferredTensor*> file_order(const std::vector<DeferredTensor>& tensors) {
  std::vector<const DeferredTensor*> order;
  for (const DeferredTensor& tensor : tensors) {
    check(tensor.name != "__metadata__", kWhere, "a tensor cannot be named __metadata__");
    order.push_back(&tensor);
  }
  // Among dtypes of one size, the format's own writer puts the one later in its enum first: F32, U32, I32 and BF16, F16.
  const auto rank = [](DType dtype) {
    constexpr DType kOrder[] = {DType::f32, DType::u32, DType::i32, DType::bf16, DType::f16, DType::u8};
    return std::find(std::begin(kOrder), std::end(kOrder), dtype) - std::begin(kOrder);
  };
  std::sort(order.begin(), order.end(), [&](const DeferredTensor* a, const DeferredTensor* b) {
    return std::pair(rank(a->dtype), std::string_view(a->name)) < std::pair(rank(b->dtype), std::string_view(b->name));
  });
  std::vector<std::string_view> names;
  for (const DeferredTensor* tensor : order) names.push_back(tensor->name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  check(twice == names.end(), kWhere, "two tensors are named '", twice == names.end() ? "" : *twice, "'");
  return order;
}

std::string header_of(const std::vector<const DeferredTensor*>& order, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const DeferredTensor* tensor : order) {
    const int64_t end = offset + tensor->shape.numel() * size_of(tensor->dtype);
    header[tensor->name] = {{"dtype", stored_name(tensor->dtype)},
                            {"shape", std::vector<int64_t>(tensor->shape.begin(), tensor->shape.end())},
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

// Downloads a tensor in pieces and passes each to `write` with the index of its first element.
void write_pieces(const Tensor& tensor, std::vector<std::byte>& buffer,
                  const std::function<void(std::span<const std::byte>, int64_t)>& write) {
  const int64_t bytes = tensor.numel() * size_of(tensor.dtype());
  buffer.resize(size_t(std::min(bytes, kPiece)));
  for (int64_t at = 0; at < bytes; at += kPiece) {
    const int64_t n = std::min(kPiece, bytes - at);
    tensor.device().download(buffer.data(), *tensor.view().buffer, tensor.view().offset + at, n);
    write(std::span(buffer).first(size_t(n)), at / size_of(tensor.dtype()));
  }
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

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors, const std::map<std::string, std::string>& metadata,
                       Floats floats) {
  std::vector<DeferredTensor> list;
  for (const auto& [name, tensor] : tensors) {
    check(tensor.defined(), kWhere, "tensor '", name, "' is undefined");
    check(tensor.contiguous(), kWhere, "tensor '", name, "' must be contiguous");
    list.push_back({name, tensor.dtype(), tensor.shape(), [tensor = tensor] { return tensor; }});
  }
  write_safetensors(path, list, metadata, floats);
}

void write_safetensors(const std::string& path, const std::vector<DeferredTensor>& tensors,
                       const std::map<std::string, std::string>& metadata, Floats floats) {
  AtomicFile file(path);
  write_safetensors(file, tensors, metadata, floats);
  file.commit();
}

void write_safetensors(AtomicFile& file, const std::vector<DeferredTensor>& tensors, const std::map<std::string, std::string>& metadata,
                       Floats floats) {
  const auto order = file_order(tensors);
  const std::string header = header_of(order, metadata);
  const uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  std::vector<std::byte> buffer;
  int64_t done = 0, total = 0;
  for (const DeferredTensor* each : order) total += each->shape.numel() * size_of(each->dtype);
  const auto progress = report_bytes("writing the model", size_t(total));
  for (const DeferredTensor* each : order) {
    progress(done);
    const Tensor tensor = each->make();
    check(tensor.dtype() == each->dtype && tensor.shape() == each->shape && tensor.contiguous(), kWhere, "tensor '", each->name,
          "' was declared as contiguous ", each->dtype, " ", each->shape, ", but is ", tensor.dtype(), " ", tensor.shape());
    write_pieces(tensor, buffer, [&](std::span<const std::byte> piece, int64_t first) {
      if (floats == Floats::finite) check_finite(file.path(), each->name, each->dtype, piece, first);
      file.write(piece);
    });
    done += tensor.numel() * size_of(tensor.dtype());
  }
  progress(done);
}

}  // namespace weft
