// Loading a model from a Hugging Face folder or a GGUF file, and exporting one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/io/safetensors_writer.h"
#include "weft/models/model.h"
#include "weft/models/tokenizer_files.h"

namespace weft {

// Loads a folder (config.json, and model.safetensors or its shards) or a GGUF file, whose quantised weights are dequantised. On the CPU,
// weights that already have the requested dtype stay in the mapped file; a trainable model gets its own copies. If a tensor is missing,
// unexpected or of another shape, the error has the file, the tensor and the expected shape. `adapter`: a folder written by PEFT or
// save_adapter; it is applied to the layers it names, unmerged.
std::unique_ptr<Model> load_model(const std::string& folder, Device& device, const ModelOptions& options = {},
                                  const std::string& adapter = "");

// The same with another config that fits the weights: other special tokens, another dropout.
std::unique_ptr<Model> load_model(const std::string& folder, ModelConfig config, Device& device, const ModelOptions& options = {},
                                  const std::string& adapter = "");

// The dtype that weights are written as: f32, bf16 or f16. Throws for any other name.
DType export_dtype(std::string_view name);

struct ExportOptions {
  std::optional<DType> dtype = {};  // of the written weights: f32, bf16 or f16; not given: the model's
  std::string like = {};            // the folder the model was loaded from: its generation settings and tokenizer are copied; empty: none
  std::string tokenizer = {};       // another folder (or tokenizer.json) whose tokenizer is copied instead
  std::optional<TokenizerFiles> tokenizer_files = {};  // if set, written instead of both
};

// Writes a folder that transformers loads: config.json, generation_config.json (with the model's own special ids),
// model.safetensors and the files of one tokenizer. Adapters are merged into their layers. All files get their names at the end
// (weft/io/atomic_files.h), so an error leaves the folder unchanged.
void export_model(const Model& model, const std::string& folder, const ExportOptions& options = {});

struct GgufOptions {
  std::string dtype =
      "f32";              // of the weights: f32, f16, bf16 or q8_0. Norms and biases are f32. With q8_0, rows not a multiple of 32 are f16
  std::string like = {};  // the folder (or file) the model was loaded from: its sampling settings are written; empty: none
  std::string tokenizer = {};  // the folder (or file) whose tokenizer is written; empty: none
};

// Writes one GGUF file that llama.cpp loads, atomically. Throws unsupported, with the name of the setting or step, if llama.cpp does not
// support a setting of the model or a step of the tokenizer.
void export_gguf(const Model& model, const std::string& path, const GgufOptions& options = {});

// The weights that export_model writes, each made when it is written: the model's own tensors, or copies if the dtype differs or an
// adapter is merged. The model must outlive them.
std::vector<DeferredTensor> exported_weights(const Model& model, DType dtype);
// The same with one tensor per parameter, so that all experts of a layer are one tensor.
std::vector<DeferredTensor> parameters_to_export(const Model& model, DType dtype);

}  // namespace weft
