// The tensors of a checkpoint: trained parameters, the optimizer's state and the random state. Each is whole in the file, whichever ranks
// have its parts, so that a checkpoint does not know how many ranks wrote it.
#pragma once

#include <vector>

#include "weft/train/agreement.h"
#include "weft/train/checkpoint.h"
#include "weft/train/optimizer.h"

namespace weft {

class SavedState {
 public:
  // Collective: ranks tell each other what they own. What is passed outlives this.
  SavedState(const Optimizer& optimizer, Tensor random_state, const Agreement& ranks);

  // For a file that rank 0 writes in ranks.first(..., server()): parts of other ranks are read from them, a piece at a time.
  std::vector<SavedTensor> tensors() const;
  Agreement::Serve server() const;

  // Each rank reads what it has.
  void restore(const Checkpoint& checkpoint) const;

 private:
  SavedTensor tensor_of(size_t part) const;
  void read_part(size_t part, int64_t offset, std::span<std::byte> into) const;
  void read_own(size_t part, int64_t offset, std::span<std::byte> into) const;

  const Optimizer& optimizer_;
  Tensor random_state_;
  const Agreement& ranks_;
  std::vector<std::vector<Range>> owned_;  // by rank and parameter
};

}  // namespace weft
