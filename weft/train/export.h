// A trained model as a folder that `weft generate` and Hugging Face's transformers load.
#pragma once

#include <string>

#include "weft/models/model.h"
#include "weft/train/vocabulary.h"

namespace weft {

// What export_model writes (weft/models/load.h), with the vocabulary as tokenizer.json and tokenizer_config.json. `like`: the
// folder that the model came from, whose tokenizer files are copied instead; empty: none.
void export_trained(const std::string& folder, const Model& model, const Vocabulary& vocabulary, const std::string& like = "");

}  // namespace weft
