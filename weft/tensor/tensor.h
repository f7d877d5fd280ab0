// A value handle: a shared buffer, a view into it, and the graph node that produced it. Copying a Tensor copies the
// handle. Reshape, slice and permute return another view of the same memory.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "weft/device/device.h"
#include "weft/tensor/view.h"

namespace weft {

struct Node;

class Tensor {
 public:
  Tensor() = default;  // undefined: no buffer, no shape

  // Uninitialised memory. (zeros, full: weft/ops/fill/fill.h)
  static Tensor empty(Device& device, const Shape& shape, DType dtype = DType::f32);

  // A copy of host values in row-major order.
  template <class T>
  static Tensor from_host(Device& device, const Shape& shape, std::span<const T> values) {
    return from_bytes(device, shape, dtype_of<T>::value, values.data(), int64_t(values.size_bytes()));
  }
  template <class T>
  static Tensor from_host(Device& device, const Shape& shape, const std::vector<T>& values) {
    return from_host(device, shape, std::span<const T>(values));
  }
  static Tensor from_bytes(Device& device, const Shape& shape, DType dtype, const void* data, int64_t bytes);

  // The whole of a buffer, which must be as large as the shape needs.
  static Tensor from_buffer(std::shared_ptr<Buffer> buffer, const Shape& shape, DType dtype);

  // Copies host values in row-major order into the tensor's memory, in stream order. The tensor must be contiguous, of dtype T,
  // and have as many elements as there are values.
  template <class T>
  void write(std::span<const T> values) const {
    write_bytes(dtype_of<T>::value, values.data(), int64_t(values.size_bytes()));
  }
  template <class T>
  void write(const std::vector<T>& values) const {
    write(std::span<const T>(values));
  }
  template <class T>
  void write(std::initializer_list<T> values) const {
    write(std::span<const T>(values.begin(), values.size()));
  }
  void write_bytes(DType dtype, const void* data, int64_t bytes) const;

  // Waits for the device and copies the values out. The tensor must be contiguous and of dtype T.
  template <class T>
  void read(std::span<T> values) const {
    read_bytes(dtype_of<T>::value, values.data(), int64_t(values.size_bytes()));
  }
  template <class T>
  std::vector<T> to_host() const {
    std::vector<T> values(static_cast<size_t>(numel()));
    read(std::span(values));
    return values;
  }
  template <class T>
  T item() const {
    check(numel() == 1, "item", "needs a tensor of one element, got shape ", shape());
    T value;
    read(std::span(&value, 1));
    return value;
  }
  void read_bytes(DType dtype, void* to, int64_t bytes) const;

  bool defined() const { return buffer_ != nullptr; }
  explicit operator bool() const { return defined(); }
  Device& device() const;
  DType dtype() const { return view_.dtype; }
  const Shape& shape() const { return view_.shape; }
  const Strides& strides() const { return view_.strides; }
  int rank() const { return view_.rank(); }
  int64_t numel() const { return view_.numel(); }
  bool contiguous() const { return view_.contiguous(); }
  const View& view() const { return view_; }
  // A view to write through once: each call counts as a write (Buffer::writes).
  MutView mut_view() const {
    if (buffer_) buffer_->count_write();
    return MutView{view_};
  }

  // Other views of the same memory; differentiable.
  Tensor reshape(const Shape& shape) const;  // the tensor must be contiguous
  Tensor permute(std::initializer_list<int> axes) const;

  // Another view of the same memory, [start, stop) along `axis`, to write into part of a tensor. Not recorded for gradients
  // (weft::slice in weft/ops/copy is).
  Tensor part(int axis, int64_t start, int64_t stop) const;

  // Gradients (weft/tensor/node.h). A leaf that requires a gradient receives it in grad() after backward().
  Tensor& set_requires_grad(bool wanted = true);
  bool requires_grad() const { return node_ != nullptr; }
  Tensor grad() const;
  void clear_grad() const;  // before the next step
  // Adds d this / d leaf to the gradient of every leaf that this tensor of one element was computed from. Defined in
  // weft/autograd/backward.cpp.
  void backward() const;
  Tensor detach() const;  // the same values with no history
  // Whether no other tensor refers to this memory: then it may be overwritten unseen.
  bool sole_owner() const { return buffer_.use_count() == 1; }
  void count_as(MemoryUse use) const { buffer_->count_as(use); }  // in the pool's statistics
  // Whether both are the same elements in the same memory.
  bool same_memory(const Tensor& other) const;
  const std::shared_ptr<Node>& node() const { return node_; }
  int node_output() const { return node_output_; }
  void set_node(std::shared_ptr<Node> node, int output);

 private:
  Tensor with_view(View view) const;
  void check_host_copy(const char* where, DType dtype, int64_t bytes) const;

  std::shared_ptr<Buffer> buffer_;
  View view_;
  std::shared_ptr<Node> node_;
  int node_output_ = 0;
};

}  // namespace weft
