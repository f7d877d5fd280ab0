// Writes a trained model as a folder that `weft generate` and Hugging Face's transformers load.
#pragma once

#include <string>

#include "weft/models/model.h"
#include "weft/data/vocabulary.h"

namespace weft {

// Writes what export_model writes (weft/models/load.h), and all files of the tokenizer of the training data. `like`: the folder that
// the model was loaded from, whose generation settings are kept; empty: none.
void export_trained(const std::string& folder, const Model& model, const Vocabulary& vocabulary, const std::string& like = "");

// Writes the adapters of a LoRA run for PEFT. `own_tokenizer`: the data was not tokenised by the base folder's tokenizer; the
// adapter's folder then gets the tokenizer in use and the ids that end a text.
void export_adapter(const std::string& folder, const Model& model, const std::string& base, const Vocabulary& vocabulary,
                    bool own_tokenizer);

}  // namespace weft
