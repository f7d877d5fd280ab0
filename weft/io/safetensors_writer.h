// Writes safetensors: tensors ordered by dtype size and name, the header padded to eight bytes, so that every tensor is aligned for its
// dtype; bytewise equal to the format's own writer. The file appears whole or not at all.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "weft/io/finite.h"
#include "weft/tensor/named_tensor.h"

namespace weft {

class AtomicFile;

const char* stored_name(DType dtype);  // in the format's spelling: "F32"

// A tensor that is computed when it is written and freed afterwards: many of them need the memory of one.
struct DeferredTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::function<Tensor()> make;  // returns a tensor of that dtype and shape
};

// Tensors must be contiguous; they are downloaded in pieces, so that none has a second copy on the host. Throws invalid_argument for a
// duplicate or reserved name, bad_file if the file cannot be written, device_fault for a value that is not finite where all
// must be.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {}, Floats floats = Floats::any);
void write_safetensors(const std::string& path, const std::vector<DeferredTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {}, Floats floats = Floats::any);
// The same into a file that the caller commits.
void write_safetensors(AtomicFile& file, const std::vector<DeferredTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {}, Floats floats = Floats::any);

}  // namespace weft
