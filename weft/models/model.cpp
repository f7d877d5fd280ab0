#include "weft/models/model.h"

#include <algorithm>

#include "weft/autograd/recompute.h"
#include "weft/models/gpt2.h"
#include "weft/models/llama.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/document_positions/document_positions.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/embedding/embedding.h"
#include "weft/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// Row lengths[b] - 1 of each sequence of x [B, T, C]: [B, 1, C].
Tensor last_rows(const Tensor& x, const std::vector<int64_t>& lengths) {
  if (!x || x.shape()[1] == 1) return x;
  const int64_t B = x.shape()[0], T = x.shape()[1], C = x.shape()[2];
  std::vector<int32_t> rows;
  for (int64_t b = 0; b < B; ++b) rows.push_back(int32_t(b * T + lengths[size_t(b)] - 1));
  return embedding(x.reshape({B * T, C}), Tensor::from_host(x.device(), {B, 1}, rows));
}

// ids as the pass takes them: all in one row where there are documents.
Tensor ids_of(const Pass& pass, const Tensor& ids) { return pass.documents ? contiguous(ids).reshape({pass.B, pass.T}) : ids; }

}  // namespace

Model::Model(const ModelConfig& config, Weights& weights)
    : config_(config), device_(weights.device().shared_from_this()), dtype_(weights.dtype()), positions_(weights.device()) {}

void Model::finish(const Weights& weights) {
  weights.check_targets();
  weights.report_taken();
  parameters_ = weights.taken();
  adapters_ = weights.adapters();
  named_adapters_ = weights.named_adapters();
}

std::vector<Parameter> Model::all_parameters() const {
  std::vector<Parameter> all = parameters_;
  for (const LoraAdapter& adapter : adapters_) {
    all.push_back({adapter.a_name(), adapter.matrices.a});
    all.push_back({adapter.b_name(), adapter.matrices.b});
  }
  return all;
}

std::vector<Parameter> Model::trainable_parameters() const {
  std::vector<Parameter> trained;
  for (const Parameter& p : all_parameters())
    if (p.tensor.requires_grad()) trained.push_back(p);
  return trained;
}

int Model::adapter(std::string_view name) const {
  if (name.empty()) return -1;
  const auto found = std::ranges::find(adapter_names_, name);
  std::string known;
  for (const std::string& each : adapter_names_) known += (known.empty() ? "; there are " : ", ") + each;
  check(found != adapter_names_.end(), "lora", "the model has no adapter '", name, "'", known);
  return int(found - adapter_names_.begin());
}

void Model::add_adapter(const std::string& name, const std::vector<LoraAdapter>& layers) {
  check(!has_adapters(), "lora", "a model made with LoRA cannot have named adapters");
  check(!name.empty() && std::ranges::find(adapter_names_, name) == adapter_names_.end(), "lora", "the adapter name '", name,
        "' is empty or already used");
  const auto place_of = [&](const LoraAdapter& adapter) -> NamedAdapters& {
    const auto place = std::ranges::find(named_adapters_, adapter.layer, [](const auto& place) { return place->layer; });
    check(place != named_adapters_.end(), "lora", "the adapter '", name, "' is for a layer '", adapter.layer,
          "', which the model does not have");
    const int64_t rank = adapter.matrices.a.shape()[0];
    check(adapter.matrices.a.shape() == Shape{rank, (*place)->in} && adapter.matrices.b.shape() == Shape{(*place)->out, rank}, "lora",
          "the matrices of the adapter '", name, "' for ", adapter.layer, " are ", adapter.matrices.a.shape(), " and ",
          adapter.matrices.b.shape(), ", the layer has ", (*place)->in, " inputs and ", (*place)->out, " outputs");
    return **place;
  };
  for (const LoraAdapter& adapter : layers) place_of(adapter);  // checks all before changing anything
  for (const auto& place : named_adapters_) place->adapters.emplace_back();
  for (const LoraAdapter& adapter : layers) place_of(adapter).adapters.back() = adapter.matrices;
  adapter_names_.push_back(name);
}

bool Model::has_dropout() const {
  const bool adapters = std::ranges::any_of(adapters_, [](const LoraAdapter& a) { return a.matrices.dropout > 0; });
  return adapters || config_.embedding_dropout > 0 || config_.attention_dropout > 0 || config_.residual_dropout > 0;
}

Model::Head Model::take_head(const ModelConfig& config, Weights& weights, const Tensor& embedding) {
  const Shape shape{config.vocab_size, config.hidden_size};
  const Init init = Init::normal(config.initializer_range);
  if (!weights.int8())
    return {config.tie_embeddings ? embedding : weights.take("lm_head.weight", shape, init, ParameterRole::head), Tensor()};
  const Int8Matrix matrix =
      config.tie_embeddings ? to_int8(embedding) : weights.take_int8("lm_head.weight", shape, init, ParameterRole::head);
  return {matrix.numbers, matrix.scales};
}

Pass Model::pass_of(const Tensor& ids, const char* where, const Tensor& documents) const {
  check(ids.defined(), where, "ids are missing (an undefined tensor)");
  check(ids.rank() == 2 && is_id(ids.dtype()), where, "ids must be [batch, time] of i32 or u32, got ", ids.dtype(), " of shape ",
        ids.shape());
  const int64_t B = ids.shape()[0], T = ids.shape()[1];
  check(B >= 1 && T >= 1, where, "ids are empty, shape ", ids.shape());
  check(T <= config_.max_positions, where, "got ", T, " tokens, the model's context length is ", config_.max_positions);
  Pass pass;
  pass.B = B;
  pass.T = T;
  pass.positions = &positions_;
  if (observer_) pass.observer = &observer_;
  if (!documents) return pass;
  check(documents.rank() == 1 && documents.dtype() == DType::i32, where, "documents must be cumulative lengths, i32 [n + 1], got ",
        documents.dtype(), " of shape ", documents.shape());
  pass.B = 1;
  pass.T = B * T;
  pass.documents = documents;
  pass.document_positions = document_positions(documents, pass.T);
  return pass;
}

Tensor Model::normed(const Residual& stream, const Pass& pass) const {
  const Tensor y = final_norm(stream);
  pass.see(config_.layers, "final_norm", y);
  return config_.logits_divisor == 1 ? y : scale(y, float(1 / config_.logits_divisor));
}

Tensor Model::head_logits(const Tensor& y) const {
  const Tensor logits = matmul(y, head().weight, {.transpose_b = true, .out_dtype = DType::f32, .scales = head().scales});
  return config_.logits_soft_cap > 0 ? soft_cap(logits, config_.logits_soft_cap) : logits;
}

Tensor Model::logits(const Tensor& ids, const Tensor& documents) const {
  const Pass pass = pass_of(ids, "logits", documents);
  const Tensor logits = head_logits(normed(blocks(ids_of(pass, ids), pass), pass));
  return documents ? logits.reshape({ids.shape()[0], ids.shape()[1], config_.vocab_size}) : logits;
}

Tensor Model::last_logits(const Tensor& ids, KvCache& cache, const std::vector<int64_t>& lengths) const {
  KvPass kv(cache, pass_of(ids, "last_logits").T);
  const Tensor logits = last_logits(ids, kv, lengths);
  lengths.empty() ? kv.commit() : kv.commit(lengths);
  return logits;
}

Tensor Model::last_logits(const Tensor& ids, KvPass& kv, const std::vector<int64_t>& lengths) const {
  constexpr const char* kWhere = "last_logits";
  const NoGrad no_grad;
  const Pass pass = cached_pass_of(ids, kWhere, kv);
  const std::vector<int64_t> used = lengths.empty() ? std::vector<int64_t>(size_t(pass.B), pass.T) : lengths;
  check(int64_t(used.size()) == pass.B, kWhere, "got ", used.size(), " lengths for ", pass.B, " sequences");
  for (int64_t length : used) check(1 <= length && length <= pass.T, kWhere, "a length is ", length, ", expected 1 to ", pass.T);
  const BlockState stream = blocks(ids, pass);
  const Residual last{last_rows(stream.x, used), last_rows(stream.delta, used)};
  return head_logits(normed(last, pass)).reshape({pass.B, config_.vocab_size});
}

Tensor Model::logits(const Tensor& ids, KvPass& kv) const {
  const NoGrad no_grad;
  const Pass pass = cached_pass_of(ids, "logits", kv);
  return head_logits(normed(blocks(ids, pass), pass)).reshape({pass.B, pass.T, config_.vocab_size});
}

Pass Model::cached_pass_of(const Tensor& ids, const char* where, KvPass& kv) const {
  const KvCache& cache = kv.cache();
  Pass pass = pass_of(ids, where);
  check(pass.B == cache.batch(), where, "ids hold ", pass.B, " sequences, the cache ", cache.batch());
  check(cache.capacity() <= config_.max_positions, where, "the cache holds ", cache.capacity(),
        " positions, the model's context length is ", config_.max_positions);
  pass.kv = &kv;
  pass.adapters = kv.adapters();
  return pass;
}

KvCache Model::make_cache(int64_t batch, int64_t capacity) const {
  check(capacity <= config_.max_positions, "make_cache", "a cache of ", capacity, " positions exceeds the model's context length of ",
        config_.max_positions);
  return KvCache(device(), {.layers = config_.layers,
                            .batch = batch,
                            .capacity = capacity,
                            .heads = config_.kv_heads,
                            .head_dim = config_.head_dim,
                            .dtype = dtype_});
}

std::shared_ptr<KvPool> Model::make_pool(int64_t pages) const {
  return std::make_shared<KvPool>(
      device(),
      KvPoolOptions{.layers = config_.layers, .pages = pages, .heads = config_.kv_heads, .head_dim = config_.head_dim, .dtype = dtype_});
}

Tensor Model::loss(const Tensor& ids, const Tensor& targets, const LossOptions& options) const {
  Pass pass = pass_of(ids, "loss", options.documents);
  check(targets.defined(), "loss", "targets are missing (an undefined tensor)");
  check(targets.shape() == ids.shape() && is_id(targets.dtype()), "loss", "targets must be i32 or u32 of ids' shape ", ids.shape(),
        ", got ", targets.dtype(), " of shape ", targets.shape());
  pass.dropout = options.dropout;
  pass.recompute = options.recompute;
  if (options.adapter >= 0) pass.adapters = {{options.adapter, 0, pass.B}};
  const int64_t rows = pass.B * pass.T;
  const auto by_row = [&](const Tensor& x) { return x ? x.reshape({rows}) : x; };
  pass.balance = config_.router_loss > 0 && grad_enabled();
  if (options.real) {
    check(options.real.shape() == ids.shape() && options.real.dtype() == DType::f32, "loss", "real must be f32 of ids' shape ", ids.shape(),
          ", got ", options.real.dtype(), " of shape ", options.real.shape());
    pass.real = options.real.reshape({rows, 1});
  }
  const BlockState stream = blocks(ids_of(pass, ids), pass);
  const Tensor y = normed(stream, pass).reshape({rows, config_.hidden_size});
  const Tensor loss = linear_cross_entropy(
      y, head().weight, contiguous(targets).reshape({rows}),
      {.pad_id = options.pad_id, .count = options.count, .losses = by_row(options.losses), .digests = by_row(options.digests)},
      config_.logits_soft_cap, head().scales);
  return stream.balance ? with_router_loss(loss, stream.balance, options.share) : loss;
}

Tensor Model::with_router_loss(const Tensor& loss, const RouterBalance& balance, const Tensor& share) const {
  const Tensor balanced = balance.loss(config_.experts_per_token).reshape(loss.shape());
  return add(loss, scale(balanced, float(config_.router_loss), share));
}

Model::BlockState Model::through(const Pass& pass, const BlockState& stream, const std::function<BlockState(const BlockState&)>& block) {
  if (!pass.recompute) return block(stream);
  const auto run = [block, balance = pass.balance](const std::vector<Tensor>& in) {
    const BlockState out = block({{in[0], in[1]}, balance ? RouterBalance{in[2], in[3]} : RouterBalance{}});
    std::vector<Tensor> results{out.x, out.delta};
    if (out.balance) results.push_back(out.balance.probabilities), results.push_back(out.balance.counts);
    return results;
  };
  std::vector<Tensor> in{stream.x, stream.delta};
  if (pass.balance) {
    in.push_back(stream.balance.probabilities);
    in.push_back(stream.balance.counts ? stream.balance.counts.detach() : Tensor());  // has no gradient
  }
  const std::vector<Tensor> out = recompute(run, in);
  return {{out[0], out[1]}, out.size() > 2 ? RouterBalance{out[2], out[3]} : RouterBalance{}};
}

std::unique_ptr<Model> make_model(const ModelConfig& config, Weights& weights) {
  check_config(config);
  weights.expect(config.parameter_count());
  if (config.architecture == Architecture::gpt2) return std::make_unique<Gpt2>(config, weights);
  return std::make_unique<Llama>(config, weights);
}

std::unique_ptr<Model> make_model(const ModelConfig& config, Device& device, uint64_t seed, const ModelOptions& options) {
  const DType stored = config.dtype == DType::bf16 ? DType::bf16 : DType::f32;
  NewWeights weights(device, options.dtype.value_or(stored), options.trainable, seed);
  if (options.lora) weights.adapt(*options.lora);
  if (options.int8) weights.use_int8();
  if (!options.context) return make_model(config, weights);
  ModelConfig declared = config;
  declare_context(declared, *options.context);
  return make_model(declared, weights);
}

}  // namespace weft
