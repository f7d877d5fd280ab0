// Documents as rows are packed from: each has ids and, for every id, the target that should follow it.
#pragma once

#include <cstdint>
#include <span>

namespace weft {

class TokenDocuments {
 public:
  virtual ~TokenDocuments() = default;

  virtual int64_t size() const = 0;                    // documents
  virtual int64_t length(int64_t document) const = 0;  // of its ids, and of its targets; 0: it is left out
  // Writes the ids from `begin` on, and their targets (kIgnored: does not count in the loss). Both spans have the same length.
  virtual void read(int64_t document, int64_t begin, std::span<int32_t> ids, std::span<int32_t> targets) const = 0;
};

}  // namespace weft
