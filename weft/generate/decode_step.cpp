#include "weft/generate/decode_step.h"

#include <algorithm>

#include "weft/ops/sample/sample.h"

namespace weft {

DecodeStep::DecodeStep(const Model& model, KvCache& cache) : model_(model), cache_(cache) {}

const Tensor& DecodeStep::operator()(const std::vector<int32_t>& newest) {
  KvPass pass(cache_, 1);
  const Tensor& logits = (*this)(pass, newest);
  pass.commit();
  return logits;
}

void DecodeStep::forget() {
  steps_.clear();
  best_ = {};
}

DecodeStep::CapturedStep& DecodeStep::step_of(int64_t batch) {
  if (!steps_.contains(batch)) {
    const int64_t row = model_.config().vocab_size * int64_t(sizeof(float)), most = model_.device().stream().captures() ? kMostLogits : 0;
    int64_t bytes = batch * row;
    for (const auto& [size, step] : steps_) bytes += size * row;
    while (bytes > most && !steps_.empty()) {
      const auto oldest = std::ranges::min_element(steps_, {}, [](const auto& each) { return each.second.used; });
      bytes -= oldest->first * row;
      steps_.erase(oldest);
    }
  }
  CapturedStep& step = steps_[batch];
  step.used = ++uses_;
  return step;
}

const Tensor& DecodeStep::operator()(KvPass& pass, const std::vector<int32_t>& newest) {
  Device& device = model_.device();
  const int64_t batch = int64_t(newest.size());
  check(batch == cache_.batch(), "decode_step", "there are ", batch, " ids for ", cache_.batch(), " sequences");
  check(&pass.cache() == &cache_ && pass.tokens() == 1, "decode_step", "needs a pass of one token over its own cache");
  CapturedStep& step = step_of(batch);
  if (!step.ids) step.ids = Tensor::empty(device, {batch, 1}, DType::i32);
  step.ids.write(newest);
  if (std::vector<AdapterRows> adapters = pass.adapters(); adapters != step.adapters) {  // other adapters need other launches
    step.replayed.forget();
    step.adapters = std::move(adapters);
  }
  step.replayed.run(device.stream(), [&] {
    step.logits = model_.last_logits(step.ids, pass);
    if (device.kernels().sample.supported()) step.best = sample(step.logits);
  });
  best_ = step.best;
  return step.logits;
}

}  // namespace weft
