// Sources of a model's parameters. A model takes each parameter by name, shape and initial values; a source reads it from a file or
// draws it. The parameters taken, in order, are the model's list.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "weft/nn/lora.h"
#include "weft/nn/parameter.h"

namespace weft {

// The values of a new parameter: normal with this stddev, or one constant.
struct Init {
  double stddev = 0;
  double constant = 0;

  static Init normal(double stddev) { return {stddev, 0}; }
  static Init ones() { return {0, 1}; }
  static Init zeros() { return {0, 0}; }
};

// A matrix [out, in] in int8 (weft/ops/matmul): numbers (u8) and scales (f16), each with a row stride that is a multiple of 16 bytes.
struct Int8Matrix {
  Tensor numbers, scales;
  explicit operator bool() const { return numbers.defined(); }
};

class Weights {
 public:
  Weights(Device& device, DType dtype, bool trainable) : device_(device), dtype_(dtype), trainable_(trainable) {}
  virtual ~Weights() = default;

  // Adds adapters to the layers that the options name; only those are trained. Before the first take().
  void adapt(const LoraOptions& options) { lora_ = options; }

  // Stores linear layers and the head in int8, converted from f32 values; such a model cannot be trained. Before the first take().
  void use_int8();
  bool int8() const { return int8_; }

  // The number of elements in all, for progress.
  void expect(int64_t elements) { expected_ = elements; }
  void report_taken() const;

  // The parameter of this name; a leaf that requires a gradient if the model is to be trained. `place`: contiguous memory of its shape to
  // keep it in, such as a part of a larger tensor; undefined: its own.
  Tensor take(const std::string& name, const Shape& shape, const Init& init, ParameterRole role, const Tensor& place = {});
  Tensor take(const std::string& name, const Shape& shape, const Init& init, const Tensor& place = {}) {
    return take(name, shape, init, role_of_rank(shape.rank()), place);
  }
  // The same, converted to an int8 matrix. transposed: the values are [in, out].
  Int8Matrix take_int8(const std::string& name, const Shape& shape, const Init& init, ParameterRole role, bool transposed = false);
  // The adapter of a layer; undefined matrices if it gets none.
  LowRank take_adapter(const std::string& layer, int64_t in, int64_t out, bool transposed);
  // The list of a layer's named adapters, empty at first; Model::add_adapter adds to it.
  std::shared_ptr<NamedAdapters> named_adapters(const std::string& layer, int64_t in, int64_t out, bool transposed);
  // Throws for a target that matches no layer, with the names of the layers.
  void check_targets() const;

  Device& device() const { return device_; }
  DType dtype() const { return dtype_; }  // of every parameter
  bool trainable() const { return trainable_; }
  bool trains_parameters() const { return trainable_ && !lora_; }  // the parameters themselves, not adapters to them
  const std::vector<Parameter>& taken() const { return taken_; }
  const std::vector<LoraAdapter>& adapters() const { return adapters_; }
  const std::vector<std::shared_ptr<NamedAdapters>>& named_adapters() const { return named_adapters_; }

 protected:
  // Values of a parameter, in memory of their own or borrowed from a file.
  virtual Tensor fetch(const std::string& name, const Shape& shape, const Init& init) = 0;
  virtual const char* doing() const { return "loading weights"; }  // the text of the progress

 private:
  Tensor fetch_into(const Tensor& place, const std::string& name, const Shape& shape, const Init& init);

  Device& device_;
  DType dtype_;
  bool trainable_, int8_ = false;
  std::vector<Parameter> taken_;
  std::optional<LoraOptions> lora_;
  std::vector<LoraAdapter> adapters_;
  std::vector<std::shared_ptr<NamedAdapters>> named_adapters_;  // by layer
  std::set<std::string> layers_;                                // by the last part of their names
  int64_t elements_ = 0, expected_ = 0;                         // elements taken so far; total
};

// Rounds a matrix to int8: in each row, a group of kInt8Group elements has the scale max |x| / 127, as in GGUF's Q8_0.
Int8Matrix to_int8(const Tensor& matrix);

// New weights, drawn from `seed`, each parameter from its own stream: the same for any number of threads.
class NewWeights : public Weights {
 public:
  NewWeights(Device& device, DType dtype, bool trainable, uint64_t seed) : Weights(device, dtype, trainable), seed_(seed) {}

 protected:
  Tensor fetch(const std::string& name, const Shape& shape, const Init& init) override;
  const char* doing() const override { return "drawing weights"; }

 private:
  uint64_t seed_;
};

}  // namespace weft
