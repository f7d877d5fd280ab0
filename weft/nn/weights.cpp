#include "weft/nn/weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/base/parallel.h"
#include "weft/base/philox.h"
#include "weft/base/progress.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"

namespace weft {
namespace {

// Four normal draws from the counter (index, site): two pairs by Box and Muller, in float64.
std::array<double, 4> normals(uint64_t index, uint32_t site, std::array<uint32_t, 2> key) {
  const PhiloxBlock words = philox({uint32_t(index), uint32_t(index >> 32), site, 1}, key);
  std::array<double, 4> z;
  for (size_t pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2 * std::log((words[pair] + 0.5) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * ((words[pair + 1] + 0.5) * 0x1p-32);
    z[pair] = radius * std::cos(angle);
    z[pair + 1] = radius * std::sin(angle);
  }
  return z;
}

// Normal values, drawn and uploaded in pieces: the host needs no copy of the tensor.
Tensor drawn(Device& device, const Shape& shape, double stddev, uint64_t seed, uint32_t site) {
  constexpr int64_t kPiece = 1 << 20, kTask = 1 << 16;
  const Tensor tensor = Tensor::empty(device, shape);
  const int64_t n = shape.numel();
  std::vector<float> values(size_t(std::min(n, kPiece)));
  for (int64_t first = 0; first < n; first += kPiece) {
    const int64_t count = std::min(kPiece, n - first);
    parallel_for(ceil_div(count, kTask), available_threads(), [&](int64_t task) {
      for (int64_t i = task * kTask; i < std::min(count, (task + 1) * kTask); i += 4) {
        const std::array<double, 4> z = normals(uint64_t((first + i) / 4), site, {uint32_t(seed), uint32_t(seed >> 32)});
        for (int64_t j = 0; j < std::min<int64_t>(4, count - i); ++j) values[size_t(i + j)] = float(stddev * z[size_t(j)]);
      }
    });
    tensor.reshape({n}).part(0, first, first + count).write(std::span<const float>(values.data(), size_t(count)));
  }
  return tensor;
}

}  // namespace

Tensor Weights::take(const std::string& name, const Shape& shape, const Init& init, ParameterRole role, const Tensor& place) {
  report_taken();
  Tensor value = place ? fetch_into(place, name, shape, init) : fetch(name, shape, init);
  if (trainable_ && value.view().buffer->borrowed()) {  // a mapped file cannot be written to
    const Tensor own = Tensor::empty(device_, shape, value.dtype());
    copy(value, own);
    value = own;
  }
  elements_ += shape.numel();
  if (trains_parameters()) value.set_requires_grad();
  taken_.push_back({name, value, role});
  return value;
}

Tensor Weights::fetch_into(const Tensor& place, const std::string& name, const Shape& shape, const Init& init) {
  const MemoryScope scope(device_, MemoryUse::activations);  // of the copy that is fetched, which does not live long
  copy(fetch(name, shape, init), place);
  return place.detach();
}

void Weights::report_taken() const { report_progress({.what = doing(), .done = elements_, .total = expected_, .bytes = true}); }

// A has the stddev of a uniform draw from +-1 / sqrt(in), which is what PEFT starts from.
LowRank Weights::take_adapter(const std::string& layer, int64_t in, int64_t out, bool transposed) {
  constexpr uint32_t kFirstSite = 1u << 24, kFirstDropout = 2u << 24;  // parameters are counted from 0
  layers_.insert(layer.substr(layer.rfind('.') + 1));
  if (!lora_ || std::ranges::none_of(lora_->targets, [&](const std::string& target) { return lora_target(target, layer); })) return {};
  const int64_t rank = lora_->rank;
  check(rank >= 1 && (lora_->stored || rank <= std::min(in, out)), "lora", "rank is ", rank, ", but ", layer, " is ", in, " x ", out);
  const uint32_t site = kFirstSite + uint32_t(adapters_.size());
  LowRank matrices{cast(drawn(device_, {rank, in}, 1 / std::sqrt(3.0 * double(in)), lora_->seed, site), dtype_),
                   full(device_, {out, rank}, 0, dtype_), float(lora_->scale), lora_->dropout, kFirstDropout + uint32_t(adapters_.size())};
  if (trainable_) matrices.a.set_requires_grad(), matrices.b.set_requires_grad();
  adapters_.push_back({layer, matrices, transposed});
  return matrices;
}

std::shared_ptr<NamedAdapters> Weights::named_adapters(const std::string& layer, int64_t in, int64_t out, bool transposed) {
  named_adapters_.push_back(std::make_shared<NamedAdapters>(NamedAdapters{layer, in, out, transposed}));
  return named_adapters_.back();
}

void Weights::check_targets() const {
  if (!lora_) return;
  check(!lora_->targets.empty(), "lora", "the list of target layers is empty");
  for (const std::string& target : lora_->targets) {
    const bool met = std::ranges::any_of(adapters_, [&](const LoraAdapter& adapter) { return lora_target(target, adapter.layer); });
    if (met) continue;
    std::string known;
    for (const std::string& layer : layers_) known += (known.empty() ? "" : ", ") + layer;
    fail(ErrorCode::invalid_argument, "lora", "no layer of the model is named '", target, "'; there are ", known);
  }
}

Tensor NewWeights::fetch(const std::string&, const Shape& shape, const Init& init) {
  if (init.stddev == 0) return full(device(), shape, init.constant, dtype());
  const uint32_t site = uint32_t(taken().size());
  return cast(drawn(device(), shape, init.stddev, seed_, site), dtype());
}

}  // namespace weft
