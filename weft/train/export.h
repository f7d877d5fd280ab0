// A trained model as a folder that `weft generate` and Hugging Face's transformers load.
#pragma once

#include <string>

#include "weft/models/model.h"
#include "weft/train/vocabulary.h"

namespace weft {

// What export_model writes (weft/models/load.h) with the tokenizer that made the ids, whole. `like`: the folder that the model
// came from, whose generation settings are kept; empty: none.
void export_trained(const std::string& folder, const Model& model, const Vocabulary& vocabulary, const std::string& like = "");

// The adapters of a LoRA run, as PEFT reads them. With `own_tokenizer` the ids were not made by the base folder's tokenizer:
// the adapter's folder then holds the one that made them, and the ids at which a text ends.
void export_adapter(const std::string& folder, const Model& model, const std::string& base, const Vocabulary& vocabulary,
                    bool own_tokenizer);

}  // namespace weft
