// From a Hugging Face folder to a model and back.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/io/safetensors_writer.h"
#include "weft/models/model.h"

namespace weft {

// The model in a folder: config.json, and model.safetensors or its shards. On the CPU weights that are already in the
// wanted dtype are used where the file is mapped; a model to be trained gets its own copies. A tensor that is missing,
// left over or of another shape is an error naming the file, the tensor and the shape that was expected.
// `adapter`: a folder that PEFT or save_adapter wrote; its matrices are added to the layers it names, unmerged.
std::unique_ptr<Model> load_model(const std::string& folder, Device& device, const ModelOptions& options = {},
                                  const std::string& adapter = "");

// The same with a config that the folder's weights fit, where its special tokens or its dropout are not the file's.
std::unique_ptr<Model> load_model(const std::string& folder, ModelConfig config, Device& device, const ModelOptions& options = {},
                                  const std::string& adapter = "");

// The dtype that weights are written as: f32, bf16 or f16. Throws for any other name.
DType export_dtype(std::string_view name);

struct ExportOptions {
  std::optional<DType> dtype = {};  // of the written weights: f32, bf16 or f16; not given: the model's
  std::string like = {};            // the folder the model came from: its generation settings and tokenizer are copied; empty: none
  std::string tokenizer = {};       // another folder (or tokenizer.json) whose tokenizer is copied in place of that one
};

// Writes a folder that transformers loads: config.json, generation_config.json (with the model's own special ids),
// model.safetensors and the files of one tokenizer. Adapters are merged into their layers. Weights are written last, each file
// whole or not at all.
void export_model(const Model& model, const std::string& folder, const ExportOptions& options = {});

// The weights of that, made one at a time as they are written: the model's own tensors where they have this dtype, copies where
// not or where an adapter is merged. The model must outlive them.
std::vector<DeferredTensor> exported_weights(const Model& model, DType dtype);

}  // namespace weft
