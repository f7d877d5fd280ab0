// The config of a model, its special tokens and its sampling settings as keys of a GGUF file.
#pragma once

#include "weft/io/gguf.h"
#include "weft/io/gguf_writer.h"
#include "weft/models/config_json.h"

namespace weft {

// Throws bad_file for a key or tensor that is missing or invalid; unsupported, naming the key, for one that changes the maths.
ModelConfig gguf_model_config(const Gguf& file);
GenerationConfig gguf_generation_config(const Gguf& file);
SpecialIds gguf_special_ids(const Gguf& file);

// Throws unsupported, naming the setting, for a model that llama.cpp would compute otherwise.
void put_model_config(const ModelConfig& config, GgufMetadata& metadata);
void put_generation_config(const GenerationConfig& generation, GgufMetadata& metadata);
// The ids that are given: `eos` first of all that end a text. llama.cpp knows three of these.
void put_special_ids(const SpecialIds& ids, GgufMetadata& metadata);

}  // namespace weft
