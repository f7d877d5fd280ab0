// Low-rank adapters in a folder in the format of Hugging Face's PEFT: adapter_config.json and
// adapter_model.safetensors with base_model.model.<layer>.lora_A.weight and .lora_B.weight.
#pragma once

#include <string>

#include "weft/models/model.h"

namespace weft {

class AtomicFiles;

// Writes the adapters of a model. `base`: the folder or name of the model they were trained on.
void save_adapter(const Model& model, const std::string& folder, const std::string& base);
// The same, added to files that the caller commits.
void add_adapter_files(const Model& model, const std::string& folder, const std::string& base, AtomicFiles& to);

// The LoRA options of the adapter in a folder; a model made with them can be filled by load_adapter. Throws bad_file or unsupported,
// naming the file and the key, for an adapter that is not plain LoRA (two matrices per layer).
LoraOptions read_adapter_options(const std::string& folder);

// Copies the matrices in the folder into those of the model.
void load_adapter(const Model& model, const std::string& folder);

// Loads the adapter in `folder`, in the model's dtype, and adds it under a name (Model::add_adapter). A sequence that uses it has the same
// bits as with a model loaded with this adapter unmerged.
void add_adapter(Model& model, const std::string& name, const std::string& folder);

}  // namespace weft
