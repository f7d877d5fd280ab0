// A language model: token ids in, logits or a loss out. Loaded from a folder or made new; the same functions serve
// training and generation.
//
//   auto model = load_model("SmolLM2-135M", *device);
//   KvCache cache = model->make_cache(1, 1024);
//   Tensor logits = model->last_logits(prompt, cache);        // [1, vocabulary]
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weft/models/config.h"
#include "weft/nn/attention.h"
#include "weft/nn/experts.h"
#include "weft/nn/layers.h"

namespace weft {

struct LossOptions {
  int64_t pad_id = -1;     // targets of this id do not count; -1: all count
  Tensor count = {};       // divisor of the sum, one f32 on the device; undefined: the number of targets that count
  Tensor dropout = {};     // a random state (weft/ops/uniform) for the config's dropout; undefined: no dropout
  bool recompute = false;  // keep only the activations between blocks and recompute each block in the backward pass
  Tensor losses = {};      // written, if defined: the loss of each position, f32 [B, T]; 0 where the target does not count
  Tensor digests = {};     // written, if defined: the digest of each position's logits, u32 [B, T] (weft/ops/cross_entropy)
  // Packed documents: their cumulative lengths over the B T tokens, row by row, i32 [n + 1] (weft/ops/causal_attention). Each is computed
  // as if it were alone: its positions restart, and each token's logits and loss have the bits of the document alone. Undefined: each
  // row is one document.
  Tensor documents = {};
  int adapter = -1;  // number of the named adapter of all sequences (inference only); -1: none
  // Factor of the load-balancing loss, one f32 on the device: the share of these tokens in a step of several micro-batches. Undefined: 1.
  Tensor share = {};
  // Mask of the load-balancing loss, f32 [B, T]: 1 for a token, 0 for padding. Undefined: no padding.
  Tensor real = {};
};

class Model {
 public:
  virtual ~Model() = default;

  const ModelConfig& config() const { return config_; }
  Device& device() const { return *device_; }
  DType dtype() const { return dtype_; }  // of weights and activations: f32 or bf16
  // In a fixed order, under the names that transformers uses; a tied head is not listed.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<LoraAdapter>& adapters() const { return adapters_; }  // empty unless the model was made with LoRA
  // The parameters, then the matrices of the adapters under the names that PEFT uses.
  std::vector<Parameter> all_parameters() const;
  // Those that require a gradient: all of a trainable model, or its adapters alone.
  std::vector<Parameter> trainable_parameters() const;
  bool has_adapters() const { return !adapters_.empty(); }
  // Named adapters, for inference: each sequence (KvSequence, LossOptions) uses one of them or none (weft/nn/lora.h).
  const std::vector<std::string>& named_adapters() const { return adapter_names_; }
  int adapter(std::string_view name) const;  // the adapter's number, -1 for ""; throws for an unknown name
  // The `layer` of each entry must exist in the model. Not while a pass is running. Throws for a model made with LoRA.
  void add_adapter(const std::string& name, const std::vector<LoraAdapter>& layers);
  bool has_dropout() const;  // of the model or of its adapters, while it is trained

  // ids [B, T] (i32 or u32): the logits of every position, [B, T, vocabulary], f32. `documents` as in LossOptions.
  Tensor logits(const Tensor& ids, const Tensor& documents = {}) const;

  // The logits after the last token of each sequence, [B, vocabulary], f32. The tokens follow what the cache holds and
  // are added to it: the whole prompt at first, then one token at a time. Sequences of different lengths are padded
  // on the right and `lengths` says how long each is; what follows a sequence's end is ignored. Records no gradient.
  Tensor last_logits(const Tensor& ids, KvCache& cache, const std::vector<int64_t>& lengths = {}) const;
  // The same in a pass that the caller opens and commits.
  Tensor last_logits(const Tensor& ids, KvPass& kv, const std::vector<int64_t>& lengths = {}) const;
  // The logits after every token of such a pass, [B, T, vocabulary], f32.
  Tensor logits(const Tensor& ids, KvPass& kv) const;
  KvCache make_cache(int64_t batch, int64_t capacity) const;  // with `batch` empty sequences
  std::shared_ptr<KvPool> make_pool(int64_t pages) const;

  // Cross entropy of targets [B, T], a device scalar. While gradients are recorded it includes the load-balancing loss if
  // config().router_loss is not 0.
  Tensor loss(const Tensor& ids, const Tensor& targets, const LossOptions& options = {}) const;

  // Calls `observer` for the intermediate results of every pass from now on; an empty one ends that. Launches that are replayed from a
  // captured graph are not seen.
  void observe(PassObserver observer) { observer_ = std::move(observer); }

 protected:
  Model(const ModelConfig& config, Weights& weights);
  void finish(const Weights& weights);

  // The residual stream between blocks, and the routers' sums so far.
  struct BlockState : Residual {
    RouterBalance balance = {};
  };

  // The residual stream after the last block, and the norm before the head.
  virtual BlockState blocks(const Tensor& ids, const Pass& pass) const = 0;
  virtual Tensor final_norm(const Residual& stream) const = 0;
  // weight [vocabulary, hidden]; scales: only for an int8 weight.
  struct Head {
    Tensor weight, scales;
  };
  virtual const Head& head() const = 0;
  // The token embedding if the two are tied; an int8 head is always a separate matrix.
  static Head take_head(const ModelConfig& config, Weights& weights, const Tensor& embedding);

  // block(stream), run again in the backward where the pass says so.
  static BlockState through(const Pass& pass, const BlockState& stream, const std::function<BlockState(const BlockState&)>& block);

 private:
  Tensor with_router_loss(const Tensor& loss, const RouterBalance& balance, const Tensor& share) const;
  Pass pass_of(const Tensor& ids, const char* where, const Tensor& documents = {}) const;
  Pass cached_pass_of(const Tensor& ids, const char* where, KvPass& kv) const;
  Tensor normed(const Residual& stream, const Pass& pass) const;
  Tensor head_logits(const Tensor& y) const;

  ModelConfig config_;
  std::shared_ptr<Device> device_;
  DType dtype_;
  std::vector<Parameter> parameters_;
  std::vector<LoraAdapter> adapters_;
  std::vector<std::shared_ptr<NamedAdapters>> named_adapters_;  // by layer
  std::vector<std::string> adapter_names_;
  mutable Positions positions_;
  PassObserver observer_;
};

// The model that a config describes, with weights from anywhere.
std::unique_ptr<Model> make_model(const ModelConfig& config, Weights& weights);

struct ModelOptions {
  std::optional<DType> dtype = {};       // f32 or bf16; not given: what the weights are stored in (f16: f32)
  bool trainable = false;                // parameters require gradients
  std::optional<float> dropout = {};     // everywhere; not given: what the config says
  std::optional<LoraOptions> lora = {};  // new adapters; where the model is trainable they alone are trained
  std::optional<int64_t> context = {};   // the declared context (declare_context); not given: that of the config
  bool int8 = false;                     // linear layers and the head in int8, for inference (weft/ops/matmul)
  bool add_embeddings = false;           // load_model: a config with a larger vocabulary than the files adds rows, each the mean of theirs
};

// A new model, its weights drawn from `seed`.
std::unique_ptr<Model> make_model(const ModelConfig& config, Device& device, uint64_t seed, const ModelOptions& options = {});

}  // namespace weft
