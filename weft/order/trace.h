// The intermediate results of one sequence, as hashes of their bytes by position: two paths through a model that should agree are
// compared layer by layer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/models/model.h"

namespace weft::order {

// The positions that one row of a batch holds in a pass.
struct Place {
  size_t sequence;
  int64_t first, count;
};

class Trace {
 public:
  // Observes the passes of `model` while it lives.
  Trace(Model& model, size_t sequence);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Before a pass: what its rows are.
  void expect(std::vector<Place> places) { places_ = std::move(places); }

  // The earliest position at which both have a result and they differ, and the first such result there: "position 7: layer 1, rope of q".
  std::optional<std::string> first_difference(const Trace& other) const;

 private:
  using Result = std::pair<int64_t, std::string>;  // layer and name

  void see(const Intermediate& seen);

  Model& model_;
  size_t sequence_;
  std::vector<Place> places_;
  std::vector<Result> order_;  // as first seen
  std::map<Result, std::map<int64_t, uint64_t>> hashes_;
};

}  // namespace weft::order
