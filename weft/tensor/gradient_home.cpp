#include "weft/tensor/gradient_home.h"

#include "weft/base/check.h"
#include "weft/tensor/node.h"

namespace weft {

GradientHome::GradientHome(std::vector<Shape> shapes) : shapes_(std::move(shapes)), first_{0} {
  for (const Shape& shape : shapes_) first_.push_back(first_.back() + shape.numel());
}

Tensor GradientHome::place(Device& device, size_t i) {
  std::shared_ptr<Buffer> buffer = buffer_.lock();
  if (!buffer) buffer_ = buffer = device.allocate(first_.back() * size_of(DType::f32));
  return Tensor::from_buffer(buffer, {first_.back()}, DType::f32).part(0, first_[i], first_[i + 1]).reshape(shapes_[i]);
}

void share_gradient_memory(std::span<const Tensor> leaves) {
  std::vector<Shape> shapes;
  for (const Tensor& leaf : leaves) {
    check(leaf.requires_grad() && leaf.node()->leaf() && !leaf.grad(), "gradient_home",
          "only a leaf that requires a gradient and has none yet gets a place for it");
    shapes.push_back(leaf.shape());
  }
  const auto home = std::make_shared<GradientHome>(std::move(shapes));
  for (size_t i = 0; i < leaves.size(); ++i) leaves[i].node()->home = home, leaves[i].node()->home_place = i;
}

MutView stacked(std::span<const Tensor> parts) {
  if (parts.empty() || !parts[0]) return {};
  View whole = parts[0].view();
  int64_t end = whole.offset, rows = 0;
  for (const Tensor& part : parts) {
    if (!part || !part.contiguous() || part.dtype() != whole.dtype || part.view().buffer != whole.buffer || part.view().offset != end)
      return {};
    end += part.numel() * size_of(whole.dtype);
    rows += part.shape()[0];
  }
  MutView out = parts[0].mut_view();
  out.shape[0] = rows;
  check(out.numel() * size_of(out.dtype) == end - out.offset, "stacked", "the tensors differ in more than their first axis");
  return out;
}

}  // namespace weft
