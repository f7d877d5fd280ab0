// Low-rank adapters as a folder, as Hugging Face's PEFT writes and reads it: adapter_config.json and
// adapter_model.safetensors with base_model.model.<layer>.lora_A.weight and .lora_B.weight.
#pragma once

#include <string>

#include "weft/models/model.h"

namespace weft {

// Writes the adapters of a model. `base`: the folder or name of the model that they belong to.
void save_adapter(const Model& model, const std::string& folder, const std::string& base);

// What to make a model with so that load_adapter can fill it: the layers are those of the file. Throws bad_file or
// unsupported, naming the file and the key, for an adapter that is more than two matrices a layer.
LoraOptions read_adapter_options(const std::string& folder);

// The matrices in the folder, into those of the model.
void load_adapter(const Model& model, const std::string& folder);

}  // namespace weft
