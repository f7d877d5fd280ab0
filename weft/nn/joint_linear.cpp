#include "weft/nn/joint_linear.h"

#include <algorithm>

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/tensor/gradient_home.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr const char* kOp = "joint_linear";

// c = op(a) b, or c + op(a) b, for a gradient.
void product(const Tensor& a, const Tensor& b, const MutView& c, bool transpose_a, bool add) {
  matmul(a.device().stream(), {.a = a.view(),
                               .b = b.view(),
                               .c = c,
                               .bias = {},
                               .pre = {},
                               .transpose_a = transpose_a,
                               .beta = add ? 1.0f : 0.0f,
                               .any_order = true});
}

// The rule of the matmul. Inputs: x, the weights, the biases.
struct Saved {
  Kept x, weight;
  std::vector<int64_t> rows;  // of each weight
  DType dx;

  size_t layers() const { return rows.size(); }

  Tensor gradient_x(const Tensor& dy, const Tensor& sum) const {
    const bool add = sum && sum.dtype() == dx;
    const Tensor to = add ? sum : Tensor::empty(dy.device(), x.shape(), dx);
    product(dy, weight, to.mut_view(), false, add);
    return to;
  }

  // dW of all weights: added to their gradients if those stand one under the other too, else in new memory.
  void gradient_weights(const Tensor& dy, const Upstream& up, std::vector<Tensor>& grads) const {
    std::vector<Tensor> sums;
    for (size_t i = 0; i < layers(); ++i) sums.push_back(up.sum(1 + i));
    const MutView whole = stacked(sums);
    const Tensor dw = whole ? Tensor() : Tensor::empty(dy.device(), weight.shape());
    const int64_t N = weight.shape()[0], K = weight.shape()[1], tokens = dy.numel() / N;
    product(dy.reshape({tokens, N}), contiguous(x).reshape({tokens, K}), whole ? whole : dw.mut_view(), true, bool(whole));
    for (size_t i = 0, first = 0; i < layers(); first += size_t(rows[i++]))
      grads[1 + i] = whole ? sums[i] : dw.part(0, int64_t(first), int64_t(first) + rows[i]);
  }

  void gradient_biases(const Tensor& dy, std::vector<Tensor>& grads) const {
    const int64_t N = weight.shape()[0];
    const Tensor all = reduce_sum(dy.reshape({dy.numel() / N, N}), 0);
    for (size_t i = 0, first = 0; i < layers(); first += size_t(rows[i++]))
      grads[1 + layers() + i] = all.part(0, int64_t(first), int64_t(first) + rows[i]);
  }

  std::vector<Tensor> operator()(const Upstream& up) const {
    const Tensor dy = contiguous(up.grads[0]);
    std::vector<Tensor> grads(1 + 2 * layers());
    if (up.wanted[1 + layers()]) gradient_biases(dy, grads);
    if (up.wanted[0]) grads[0] = gradient_x(dy, up.sum(0));
    if (up.wanted[1]) gradient_weights(dy, up, grads);
    return grads;
  }
};

// y with delta added to the columns from `first` on, in y's memory.
Tensor add_to_columns(const Tensor& y, int64_t first, const Tensor& delta) {
  Tensor sum = y.detach();
  const int64_t last = first + delta.shape().back();
  add_assign(sum.part(-1, first, last), delta.detach());
  record("add_to_columns", {&y, &delta}, {&sum}, [first, last](const Upstream& up) {
    const Tensor dy = up.grads[0].detach();
    return std::vector<Tensor>{dy, dy.part(-1, first, last)};
  });
  return sum;
}

// Whether `part` begins at row `first` of `all`, in its memory.
bool stands_at(const Tensor& part, const Tensor& all, int64_t first) {
  return part.defined() == all.defined() &&
         (!all || (part.view().buffer == all.view().buffer && part.view().offset == first * all.strides()[0] * size_of(all.dtype())));
}

}  // namespace

JointLinear::JointLinear(Weights& weights, const std::string& prefix, int64_t in, std::initializer_list<Part> parts,
                         const Linear::Options& options, bool join) {
  const bool joint = join && weights.trainable() && options.layout == Linear::Layout::out_in &&
                     std::ranges::all_of(parts, [](const Part& part) { return part.out % kRows == 0; });
  int64_t all = 0, first = 0;
  for (const Part& part : parts) all += part.out;
  if (joint) weight_ = Tensor::empty(weights.device(), {all, in}, weights.dtype());
  if (joint && options.bias) bias_ = Tensor::empty(weights.device(), {all}, weights.dtype());
  std::vector<Tensor> leaves;
  for (const Part& part : parts) {
    const Linear::Place place{weight_ ? weight_.part(0, first, first + part.out) : Tensor(),
                              bias_ ? bias_.part(0, first, first + part.out) : Tensor()};
    *part.layer = Linear(weights, prefix + part.name, in, part.out, options, place);
    leaves.push_back(part.layer->weight);
    first += part.out;
  }
  if (joint && weights.trains_parameters()) share_gradient_memory(leaves);
}

bool JointLinear::applies(std::span<const Linear* const> layers, const Tensor& x) const {
  if (!weight_ || layers.empty()) return false;
  bool records = false;
  int64_t first = 0;
  for (const Linear* l : layers) {
    if (!stands_at(l->weight, weight_, first) || !stands_at(l->bias, bias_, first)) return false;
    if (l->weight.requires_grad() != layers[0]->weight.requires_grad()) return false;
    if (l->bias.requires_grad() != layers[0]->bias.requires_grad()) return false;
    records |= should_record({&x, &l->weight, &l->bias, &l->adapter.a, &l->adapter.b});
    first += l->weight.shape()[0];
  }
  return records && first == weight_.shape()[0];
}

Tensor JointLinear::operator()(std::span<const Linear* const> layers, const Tensor& x, const LoraUse& lora) const {
  check(applies(layers, x), kOp, "the layers are not those of the joint memory, or nothing is recorded");
  Tensor y = matmul(x.detach(), weight_, {.transpose_b = true, .bias = bias_});
  Saved saved{.x = x, .weight = weight_, .rows = {}, .dx = x.node() && x.node()->leaf() ? DType::f32 : x.dtype()};
  std::vector<const Tensor*> inputs = {&x};
  for (const Linear* l : layers) saved.rows.push_back(l->weight.shape()[0]), inputs.push_back(&l->weight);
  for (const Linear* l : layers) inputs.push_back(&l->bias);
  Tensor* const outputs[] = {&y};
  record(kOp, inputs, outputs, std::move(saved));
  int64_t first = 0;
  for (const Linear* l : layers) {
    if (l->adapter) y = add_to_columns(y, first, l->adapter(x, lora.random));
    first += l->weight.shape()[0];
  }
  return y;
}

}  // namespace weft
