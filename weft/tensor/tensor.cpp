#include "weft/tensor/tensor.h"

#include "weft/base/check.h"
#include "weft/tensor/node.h"

namespace weft {

Tensor Tensor::empty(Device& device, const Shape& shape, DType dtype) {
  int64_t bytes = 0;
  check(!__builtin_mul_overflow(shape.numel(), size_of(dtype), &bytes), "tensor", "shape ", shape, " of ", dtype,
        " does not fit in 63 bits");
  Tensor tensor;
  tensor.buffer_ = device.allocate(bytes);
  tensor.view_ = View{tensor.buffer_.get(), 0, dtype, shape, contiguous_strides(shape)};
  return tensor;
}

Tensor Tensor::from_bytes(Device& device, const Shape& shape, DType dtype, const void* data, int64_t bytes) {
  Tensor tensor = empty(device, shape, dtype);
  check(bytes == tensor.numel() * size_of(dtype), "from_host", "shape ", shape, " of ", dtype, " needs ", tensor.numel() * size_of(dtype),
        " bytes, got ", bytes);
  tensor.write_bytes(dtype, data, bytes);
  return tensor;
}

Tensor Tensor::from_buffer(std::shared_ptr<Buffer> buffer, const Shape& shape, DType dtype) {
  check(buffer != nullptr, "from_buffer", "the buffer is null");
  int64_t bytes = 0;
  check(!__builtin_mul_overflow(shape.numel(), size_of(dtype), &bytes) && bytes == buffer->bytes(), "from_buffer", "shape ", shape, " of ",
        dtype, " does not fill a buffer of ", buffer->bytes(), " bytes");
  Tensor tensor;
  tensor.buffer_ = std::move(buffer);
  tensor.view_ = View{tensor.buffer_.get(), 0, dtype, shape, contiguous_strides(shape)};
  return tensor;
}

void Tensor::check_host_copy(const char* where, DType dtype, int64_t bytes) const {
  check(defined(), where, "the tensor is undefined");
  check(dtype == this->dtype(), where, "the tensor holds ", this->dtype(), ", not ", dtype);
  check(contiguous(), where, "the tensor must be contiguous, got strides ", strides(), " for shape ", shape());
  check(bytes == numel() * size_of(dtype), where, "shape ", shape(), " of ", dtype, " needs ", numel() * size_of(dtype), " bytes, got ",
        bytes);
}

void Tensor::write_bytes(DType dtype, const void* data, int64_t bytes) const {
  check_host_copy("write", dtype, bytes);
  device().upload(*buffer_, view_.offset, data, bytes);
}

void Tensor::read_bytes(DType dtype, void* to, int64_t bytes) const {
  check_host_copy("to_host", dtype, bytes);
  device().download(to, *buffer_, view_.offset, bytes);
}

Device& Tensor::device() const {
  check(defined(), "tensor", "an undefined tensor has no device");
  return buffer_->device();
}

Tensor Tensor::with_view(View view) const {
  Tensor other;
  other.buffer_ = buffer_;
  other.view_ = std::move(view);
  return other;
}

Tensor Tensor::reshape(const Shape& shape) const {
  check(defined(), "reshape", "the tensor is undefined");
  check(shape.numel() == numel(), "reshape", "cannot reshape ", this->shape(), " to ", shape);
  check(contiguous(), "reshape", "the tensor must be contiguous, got strides ", strides(), " for shape ", this->shape());
  Tensor out = with_view(View{view_.buffer, view_.offset, dtype(), shape, contiguous_strides(shape)});
  record("reshape", {this}, {&out}, [from = this->shape()](const Upstream& up) { return std::vector<Tensor>{up.grads[0].reshape(from)}; });
  if (out.node_) out.node_->contiguous = true;
  return out;
}

Tensor Tensor::permute(std::initializer_list<int> axes) const {
  check(int(axes.size()) == rank(), "permute", axes.size(), " axes given for rank ", rank());
  View view = view_;
  std::vector<int> inverse(axes.size(), -1);
  int to = 0;
  for (int axis : axes) {
    const int from = normalise_axis(axis, rank(), "permute");
    check(inverse[from] < 0, "permute", "axis ", axis, " is named twice");
    inverse[from] = to;
    view.shape[to] = shape()[from];
    view.strides[to] = strides()[from];
    ++to;
  }
  Tensor out = with_view(view);
  record("permute", {this}, {&out}, [inverse](const Upstream& up) {
    const Tensor& grad = up.grads[0];
    View view = grad.view();
    for (int axis = 0; axis < grad.rank(); ++axis) {
      view.shape[axis] = grad.shape()[inverse[axis]];
      view.strides[axis] = grad.strides()[inverse[axis]];
    }
    return std::vector<Tensor>{grad.with_view(view)};
  });
  return out;
}

Tensor Tensor::part(int axis, int64_t start, int64_t stop) const {
  check(defined(), "part", "the tensor is undefined");
  axis = normalise_axis(axis, rank(), "part");
  check(0 <= start && start <= stop && stop <= shape()[axis], "part", "[", start, ", ", stop, ") is not within axis ", axis, " of shape ",
        shape());
  Tensor out = with_view(weft::part(view_, axis, start, stop));
  record("part", {this}, {&out}, NotDifferentiable{"it is memory to write into; weft::slice has one"});
  return out;
}

Tensor& Tensor::set_requires_grad(bool wanted) {
  check(defined() && is_float(dtype()), "requires_grad", "only a defined tensor of floats can have a gradient");
  check(!node_ || node_->leaf(), "requires_grad", "only a leaf can be asked for its gradient, this tensor came from ",
        node_ ? node_->op : "");
  if (wanted && node_) return *this;  // what was computed from it already leads here
  node_ = wanted ? std::make_shared<Node>(
                       Node{.op = "leaf", .order = 0, .inputs = {}, .input_outputs = {}, .outputs = 1, .backward = {}, .grad = {}})
                 : nullptr;
  return *this;
}

Tensor Tensor::grad() const { return node_ ? node_->grad : Tensor(); }

void Tensor::clear_grad() const {
  if (node_) node_->grad = Tensor();
}

bool Tensor::same_memory(const Tensor& other) const {
  return defined() && buffer_ == other.buffer_ && view_.offset == other.view_.offset && dtype() == other.dtype() &&
         shape() == other.shape() && strides() == other.strides();
}

Tensor Tensor::detach() const { return with_view(view_); }

void Tensor::set_node(std::shared_ptr<Node> node, int output) {
  node_ = std::move(node);
  node_output_ = output;
}

}  // namespace weft
