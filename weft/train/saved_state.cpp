#include "weft/train/saved_state.h"

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr int64_t kSize = sizeof(float);  // of an element of the optimizer's state

}  // namespace

SavedState::SavedState(const Optimizer& optimizer, Tensor random_state, const Agreement& ranks)
    : optimizer_(optimizer), random_state_(std::move(random_state)), ranks_(ranks) {
  std::string own;
  for (size_t i = 0; i < optimizer.parameters().size(); ++i) {
    const Range range = optimizer.owned(i);
    own.append(reinterpret_cast<const char*>(&range), sizeof range);
  }
  for (const std::string& text : ranks.communicator().all_gather(own)) {
    std::vector<Range>& ranges = owned_.emplace_back(optimizer.parameters().size());
    check(text.size() == own.size(), "checkpoint", "ranks have different parameters");
    std::memcpy(ranges.data(), text.data(), text.size());
  }
}

// Bytes of the part of this rank, `offset` in the whole tensor.
void SavedState::read_own(size_t part, int64_t offset, std::span<std::byte> into) const {
  const Optimizer::StatePart& state = optimizer_.state_parts()[part];
  const Tensor& tensor = state.tensor;
  tensor.device().download(into.data(), *tensor.view().buffer, tensor.view().offset + offset - state.range.first * kSize,
                           int64_t(into.size()));
}

void SavedState::read_part(size_t part, int64_t offset, std::span<std::byte> into) const {
  const size_t parameter = optimizer_.state_parts()[part].parameter;
  while (!into.empty()) {
    const auto has = [&](const std::vector<Range>& ranges) {
      return ranges[parameter].first * kSize <= offset && offset < ranges[parameter].end() * kSize;
    };
    const auto owner = std::find_if(owned_.begin(), owned_.end(), has);
    check(owner != owned_.end(), "checkpoint", "no rank owns element ", offset / kSize, " of ", optimizer_.state_parts()[part].name);
    const auto piece = into.first(size_t(std::min(int64_t(into.size()), (*owner)[parameter].end() * kSize - offset)));
    const int rank = int(owner - owned_.begin());
    if (rank == ranks_.communicator().rank())
      read_own(part, offset, piece);
    else
      ranks_.read(rank, {int64_t(part), offset, int64_t(piece.size())}, piece);
    into = into.subspan(piece.size());
    offset += int64_t(piece.size());
  }
}

SavedTensor SavedState::tensor_of(size_t part) const {
  const Optimizer::StatePart& state = optimizer_.state_parts()[part];
  check(!state.tensor.defined() || state.tensor.dtype() == DType::f32, "checkpoint", "state ", state.name, " is not f32");
  return {"optimizer." + state.name, DType::f32, optimizer_.parameters()[state.parameter].tensor.shape(),
          [this, part](int64_t offset, std::span<std::byte> into) { read_part(part, offset, into); }};
}

std::vector<SavedTensor> SavedState::tensors() const {
  std::vector<SavedTensor> tensors;
  for (const Parameter& p : optimizer_.parameters()) tensors.push_back(saved({"model." + p.name, p.tensor}));
  for (size_t part = 0; part < optimizer_.state_parts().size(); ++part) tensors.push_back(tensor_of(part));
  tensors.push_back(saved({"random_state", random_state_}));
  return tensors;
}

Agreement::Serve SavedState::server() const {
  return [this](const Agreement::Request& request, std::span<std::byte> into) { read_own(size_t(request.item), request.offset, into); };
}

void SavedState::restore(const Checkpoint& checkpoint) const {
  for (const Parameter& p : optimizer_.parameters()) checkpoint.restore({"model." + p.name, p.tensor});
  for (const Optimizer::StatePart& state : optimizer_.state_parts())
    if (state.tensor.defined())
      checkpoint.restore({"optimizer." + state.name, state.tensor}, optimizer_.parameters()[state.parameter].tensor.shape(), state.range);
  checkpoint.restore({"random_state", random_state_});
}

}  // namespace weft
