// The weights of a GGUF file, dequantised while loading.
#pragma once

#include <set>
#include <string>

#include "weft/io/gguf.h"
#include "weft/models/gguf_families.h"
#include "weft/models/model.h"

namespace weft {

class GgufWeights : public Weights {
 public:
  GgufWeights(Device& device, DType dtype, bool trainable, const ModelConfig& config, const Gguf& file);

  // Throws if a tensor of the file was not taken.
  void check_all_used() const;

 protected:
  Tensor fetch(const std::string& name, const Shape& shape, const Init& init) override;

 private:
  const Gguf::Entry& entry_of(const std::string& name, const Shape& shape);
  Tensor from_parts(const std::vector<GgufExpertPart>& parts, const Shape& shape);

  const ModelConfig& config_;
  const GgufFamily& family_;
  const Gguf& file_;
  std::set<std::string> used_;
};

}  // namespace weft
