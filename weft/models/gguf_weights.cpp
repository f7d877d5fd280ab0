#include "weft/models/gguf_weights.h"

#include "weft/io/json.h"
#include "weft/models/gguf_rope.h"
#include "weft/ops/copy/copy.h"

namespace weft {
namespace {

// A tensor of the stored bytes, which borrows from the mapped file if the device can use it.
Tensor stored_tensor(Device& device, const Gguf& file, const Gguf::Entry& entry, DType dtype) {
  const auto start = size_t(entry.bytes.data() - file.mapping()->bytes().data());
  std::byte* const memory = file.mapping()->private_bytes().data() + start;
  const auto bytes = int64_t(entry.bytes.size());
  if (reinterpret_cast<uintptr_t>(memory) % uintptr_t(size_of(dtype)) == 0)
    if (auto buffer = device.borrow(memory, bytes, file.mapping())) return Tensor::from_buffer(std::move(buffer), entry.shape, dtype);
  return Tensor::from_bytes(device, entry.shape, dtype, memory, bytes);
}

}  // namespace

GgufWeights::GgufWeights(Device& device, DType dtype, bool trainable, const ModelConfig& config, const Gguf& file)
    : Weights(device, dtype, trainable), config_(config), family_(gguf_family(config.architecture)), file_(file) {}

const Gguf::Entry& GgufWeights::entry_of(const std::string& name, const Shape& shape) {
  const auto found = file_.tensors().find(name);
  if (found == file_.tensors().end()) fail(ErrorCode::bad_file, file_.path(), "has no tensor '", name, "', expected one of shape ", shape);
  const Gguf::Entry& entry = found->second;
  if (!(entry.shape == shape)) fail(ErrorCode::bad_file, file_.path(), "tensor '", name, "' has shape ", entry.shape, ", expected ", shape);
  if (!entry.type->loadable)
    fail(ErrorCode::unsupported, file_.path(), "tensor '", name, "' is ", entry.type->name, ", expected one of ", loadable_gguf_types());
  used_.insert(name);
  return entry;
}

Tensor GgufWeights::fetch(const std::string& wanted, const Shape& shape, const Init&) {
  if (const auto parts = gguf_expert_parts(config_, wanted, shape); !parts.empty()) return from_parts(parts, shape);
  const auto place = gguf_place(family_, wanted);
  if (!place) fail(ErrorCode::unsupported, file_.path(), "GGUF's family ", family_.name, " has no tensor for '", wanted, "'");
  const Gguf::Entry& entry = entry_of(place->name, gguf_shape(place->layout, shape));
  const auto stored = entry.type->dtype();
  if (place->layout == GgufLayout::same && stored == dtype()) return stored_tensor(device(), file_, entry, dtype());
  std::vector<float> values;
  if (place->layout != GgufLayout::same || !stored) {
    values.resize(size_t(entry.shape.numel()));
    to_floats(*entry.type, entry.bytes, values);
    values = from_gguf_layout(place->layout, shape, gguf_heads(config_, wanted), std::move(values));
    if (dtype() == DType::f32) return Tensor::from_host(device(), shape, values);
  }
  const Tensor loaded = [&] {
    const MemoryScope scope(device(), MemoryUse::activations);  // temporary
    return values.empty() ? stored_tensor(device(), file_, entry, *stored) : Tensor::from_host(device(), shape, values);
  }();
  return cast(loaded, dtype());
}

// Converts one expert at a time, so that only one expert is in memory as f32.
Tensor GgufWeights::from_parts(const std::vector<GgufExpertPart>& parts, const Shape& shape) {
  std::vector<const Gguf::Entry*> entries;
  for (const GgufExpertPart& part : parts) entries.push_back(&entry_of(part.name, gguf_part_shape(part, shape)));
  const Tensor all = Tensor::empty(device(), shape, dtype());
  const Shape one = shape.rank() == 3 ? Shape{1, shape[1], shape[2]} : Shape{1, shape[1]};
  std::vector<float> values(size_t(one.numel())), theirs;
  for (int64_t e = 0; e < shape[0]; ++e) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t bytes = entries[i]->bytes.size() / size_t(shape[0]);
      theirs.resize(size_t(entries[i]->shape.numel() / shape[0]));
      to_floats(*entries[i]->type, entries[i]->bytes.subspan(size_t(e) * bytes, bytes), theirs);
      from_gguf_part(parts[i], shape, theirs, values);
    }
    const MemoryScope scope(device(), MemoryUse::activations);  // temporary
    copy(cast(Tensor::from_host(device(), one, values), dtype()), all.part(0, e, e + 1));
  }
  return all;
}

void GgufWeights::check_all_used() const {
  for (const auto& [name, entry] : file_.tensors())
    if (!used_.contains(name) && !is_gguf_rope_tensor(config_, name))
      fail(ErrorCode::bad_file, file_.path(), "has a tensor '", shown(name), "' of shape ", entry.shape, " which a ", family_.name,
           " model with these keys does not have");
}

}  // namespace weft
