#include "weft/autograd/gradcheck.h"

#include <cmath>

#include "weft/autograd/backward.h"
#include "weft/base/philox.h"
#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

std::vector<float> normals(int64_t n, uint64_t seed, uint32_t site) {
  PhiloxStream random(seed, site);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = float(random.normal());
  return values;
}

double weighted_sum(const Tensor& y, uint64_t seed) {
  const std::vector<float> values = cast(contiguous(y.detach()), DType::f32).to_host<float>(), weights = normals(y.numel(), seed, 0);
  double total = 0;
  for (size_t i = 0; i < values.size(); ++i) total += double(values[i]) * weights[i];
  return total;
}

double size_of_values(const std::vector<float>& x) {
  double sum = 0;
  for (float v : x) sum += double(v) * v;
  return sum > 0 ? std::sqrt(sum / double(x.size())) : 1.0;
}

// L with the leaf at x + h d.
class Moved {
 public:
  Moved(const std::function<Tensor()>& f, const NamedTensor& leaf, const std::vector<float>& x, const std::vector<float>& d, uint64_t seed)
      : f_(f), leaf_(leaf), x_(x), d_(d), seed_(seed) {}
  ~Moved() { put(x_); }

  double difference(double h) const { return (at(h) - at(-h)) / (2 * h); }

 private:
  double at(double h) const {
    std::vector<float> values = x_;
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(double(values[i]) + h * d_[i]);
    put(values);
    return weighted_sum(f_(), seed_);
  }
  void put(const std::vector<float>& values) const {
    copy(Tensor::from_host(leaf_.tensor.device(), leaf_.tensor.shape(), values), leaf_.tensor.detach());
  }

  const std::function<Tensor()>& f_;
  const NamedTensor& leaf_;
  const std::vector<float>&x_, &d_;
  uint64_t seed_;
};

}  // namespace

double GradcheckResult::error() const { return std::abs(analytic - numeric) / (scale > 0 ? scale : 1.0); }

std::vector<GradcheckResult> gradcheck(const std::function<Tensor()>& f, const std::vector<NamedTensor>& leaves,
                                       const GradcheckOptions& options) {
  for (const NamedTensor& leaf : leaves) {
    check(leaf.tensor.requires_grad() && leaf.tensor.dtype() == DType::f32, "gradcheck", leaf.name, " must be f32 and require a gradient");
    leaf.tensor.clear_grad();
  }
  const Tensor y = f();
  backward(y, cast(Tensor::from_host(y.device(), y.shape(), normals(y.numel(), options.seed, 0)), y.dtype()));
  const NoGrad no_grad;
  std::vector<GradcheckResult> results;
  for (size_t k = 0; k < leaves.size(); ++k) {
    const Tensor& leaf = leaves[k].tensor;
    check(leaf.grad().defined(), "gradcheck", leaves[k].name, " received no gradient");
    const std::vector<float> x = leaf.to_host<float>(), d = normals(leaf.numel(), options.seed, uint32_t(k + 1)),
                             grad = leaf.grad().to_host<float>();
    GradcheckResult result{leaves[k].name, 0, 0, 0};
    for (size_t i = 0; i < d.size(); ++i) {
      result.analytic += double(grad[i]) * d[i];
      result.scale += std::pow(double(grad[i]) * d[i], 2);
    }
    result.scale = std::sqrt(result.scale);
    const Moved moved(f, leaves[k], x, d, options.seed);
    const double h = options.step * size_of_values(x);
    result.numeric = (4 * moved.difference(h / 2) - moved.difference(h)) / 3;
    results.push_back(result);
  }
  return results;
}

}  // namespace weft
