// Reads and writes a model's config, special tokens and sampling settings as keys of a GGUF file.
#pragma once

#include "weft/io/gguf.h"
#include "weft/io/gguf_writer.h"
#include "weft/models/config_json.h"

namespace weft {

// Throws bad_file if a key or tensor is missing or invalid, and unsupported for a key that changes the maths and is not supported.
ModelConfig gguf_model_config(const Gguf& file);
GenerationConfig gguf_generation_config(const Gguf& file);
SpecialIds gguf_special_ids(const Gguf& file);

// Throws unsupported, with the name of the setting, if llama.cpp would compute the model differently.
void put_model_config(const ModelConfig& config, GgufMetadata& metadata);
void put_generation_config(const GenerationConfig& generation, GgufMetadata& metadata);
// Writes the ids that are set. Throws unsupported for more than three end ids: llama.cpp has three keys for them.
void put_special_ids(const SpecialIds& ids, GgufMetadata& metadata);

}  // namespace weft
