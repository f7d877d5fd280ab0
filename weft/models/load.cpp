#include "weft/models/load.h"

#include <algorithm>
#include <set>

#include "weft/io/weight_files.h"
#include "weft/models/adapter.h"
#include "weft/models/config_json.h"
#include "weft/models/expert_tensors.h"
#include "weft/models/gguf_weights.h"
#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// The prefix that a checkpoint of the bare model, without its head, leaves out.
std::string_view base_prefix(Architecture architecture) { return architecture == Architecture::gpt2 ? "transformer." : "model."; }
std::string_view token_embedding(Architecture architecture) {
  return architecture == Architecture::gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
}

// Prefixes of tensors in a multimodal model: of the text model, and of the other parts.
constexpr std::string_view kTextPrefixes[] = {"language_model.model.", "model.language_model."};
constexpr std::string_view kImagePrefixes[] = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                               "model.multi_modal_projector."};
constexpr const char *kHead = "lm_head.weight", *kMultimodalHead = "language_model.lm_head.weight";

bool begins_with_any(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

constexpr const char* kBlocks = "_blocks";  // suffix of a tensor in MXFP4

// The name of a parameter in the files: its own, without the base model's prefix, with a prefix of a multimodal model, or, for a tied
// embedding, the head's. "" if the files do not have it.
std::string name_in_files(const ModelConfig& config, const WeightFiles& files, const std::string& wanted) {
  const std::string_view prefix = base_prefix(config.architecture);
  std::vector<std::string> names{wanted};
  if (const std::string published = published_name(config, wanted); published != wanted) names.push_back(published);
  if (wanted.starts_with(prefix)) {
    const std::string bare = wanted.substr(prefix.size());
    names.push_back(bare);
    for (std::string_view each : kTextPrefixes) names.push_back(join(each, bare));
  }
  const bool tied_table = config.tie_embeddings && wanted == token_embedding(config.architecture);
  if (tied_table) names.push_back(kHead);
  if (tied_table || wanted == kHead) names.push_back(kMultimodalHead);
  for (const std::string& name : names)
    if (files.contains(name)) return name;
  return "";
}

bool is_multimodal(const ModelConfig& config, const WeightFiles& files) {
  return begins_with_any(name_in_files(config, files, std::string(token_embedding(config.architecture))), kTextPrefixes);
}

class FolderWeights : public Weights {
 public:
  FolderWeights(Device& device, DType dtype, const ModelOptions& options, const ModelConfig& config, const WeightFiles& files)
      : Weights(device, dtype, options.trainable), config_(config), files_(files), add_embeddings_(options.add_embeddings) {}

  // Every tensor of the files must have been taken, but for buffers that are no weights.
  void check_all_used() const {
    check_tied_head();
    for (const std::string& name : files_.names())
      if (!used_.contains(name) && !known_buffer(name))
        fail(ErrorCode::bad_file, files_.file_of(name).path(), "has a tensor '", name, "' of shape ", files_.at(name).shape, " that a ",
             weft::name(config_.architecture), " model of this config.json does not have");
  }

 protected:
  Tensor fetch(const std::string& wanted, const Shape& shape, const Init&) override {
    const std::string name = stored_name(wanted);
    if (const auto parts = expert_parts(config_, wanted, shape); name.empty() && !parts.empty()) return from_parts(parts, shape);
    if (name.empty() && !stored_name(wanted + kBlocks).empty()) return from_mxfp4(wanted, shape);
    if (name.empty()) fail(ErrorCode::bad_file, files_.path(), "has no tensor '", wanted, "', expected one of shape ", shape);
    const SafeTensors& file = files_.file_of(name);
    const Shape& found = file.at(name).shape;
    if (add_embeddings_ && wants_rows(wanted, found, shape)) return used_.insert(name), with_mean_rows(file, name, shape);
    return stored(name, shape);
  }

 private:
  // Reads the tensor of this name; throws if it has another shape.
  Tensor stored(const std::string& name, const Shape& shape) {
    const SafeTensors& file = files_.file_of(name);
    const Shape& found = file.at(name).shape;
    if (!(found == shape)) fail(ErrorCode::bad_file, file.path(), "tensor '", name, "' has shape ", found, ", expected ", shape);
    if (!is_float(file.dtype(name)))
      fail(ErrorCode::unsupported, file.path(), "tensor '", name, "' is ", file.at(name).stored, ", expected F32, BF16 or F16");
    used_.insert(name);
    if (file.dtype(name) != dtype()) {
      const Tensor stored = [&] {
        const MemoryScope scope(device(), MemoryUse::activations);  // not for long
        return files_.tensor(device(), name);
      }();
      return cast(stored, dtype());
    }
    return files_.tensor(device(), name);
  }

  // Stacks matrices of experts that are separate tensors.
  Tensor from_parts(const std::vector<ExpertPart>& parts, const Shape& shape) {
    const NoGrad no_grad;
    const Tensor all = Tensor::empty(device(), shape, dtype());
    for (const ExpertPart& part : parts) {
      const Shape rows{part.last - part.first, shape[2]};
      const std::string name = stored_name(part.name);
      if (name.empty()) fail(ErrorCode::bad_file, files_.path(), "has no tensor '", part.name, "', expected one of shape ", rows);
      const MemoryScope scope(device(), MemoryUse::activations);  // not for long
      copy(stored(name, rows), all.part(0, part.expert, part.expert + 1).part(1, part.first, part.last).reshape(rows));
    }
    return all;
  }

  // The bytes of a U8 tensor; throws if it has another dtype or shape.
  std::span<const uint8_t> bytes_of(const std::string& wanted, const Shape& shape) {
    const std::string name = stored_name(wanted);
    if (name.empty()) fail(ErrorCode::bad_file, files_.path(), "has no tensor '", wanted, "', expected one of shape ", shape);
    const SafeTensors::Entry& entry = files_.at(name);
    const std::string& file = files_.file_of(name).path();
    if (!(entry.shape == shape)) fail(ErrorCode::bad_file, file, "tensor '", name, "' has shape ", entry.shape, ", expected ", shape);
    if (entry.dtype != DType::u8) fail(ErrorCode::unsupported, file, "tensor '", name, "' is ", entry.stored, ", expected U8 (MXFP4)");
    used_.insert(name);
    return {reinterpret_cast<const uint8_t*>(entry.bytes.data()), entry.bytes.size()};
  }

  // Dequantises the matrices of experts [E, in, out] from MXFP4, one at a time.
  Tensor from_mxfp4(const std::string& wanted, const Shape& shape) {
    const int64_t E = shape[0], in = shape[1], out = shape[2];
    if (in % 32 != 0) fail(ErrorCode::bad_file, files_.path(), "'", wanted, kBlocks, "' has blocks of 32, which do not divide ", in);
    const auto blocks = bytes_of(wanted + kBlocks, {E, out, in / 32, 16}), scales = bytes_of(wanted + "_scales", {E, out, in / 32});
    const Tensor all = Tensor::empty(device(), shape, dtype());
    std::vector<float> matrix(size_t(in * out));
    for (int64_t e = 0; e < E; ++e) {
      mxfp4_to_floats(blocks.subspan(size_t(e * in * out / 2), size_t(in * out / 2)),
                      scales.subspan(size_t(e * in * out / 32), size_t(in * out / 32)), in, out, matrix.data());
      const MemoryScope scope(device(), MemoryUse::activations);  // not for long
      copy(cast(Tensor::from_host(device(), {1, in, out}, matrix), dtype()), all.part(0, e, e + 1));
    }
    return all;
  }

  // The embedding and the head have a row per token.
  bool wants_rows(const std::string& wanted, const Shape& found, const Shape& shape) const {
    const bool rows_of_tokens = wanted == token_embedding(config_.architecture) || wanted == kHead;
    return rows_of_tokens && found.rank() == 2 && found[1] == shape[1] && found[0] >= 1 && found[0] < shape[0];
  }

  // The stored rows, and below them the mean of all: a new token starts as an average one. The mean is a float64 sum in the order of rows.
  Tensor with_mean_rows(const SafeTensors& file, const std::string& name, const Shape& shape) {
    if (!is_float(file.dtype(name)))
      fail(ErrorCode::unsupported, file.path(), "tensor '", name, "' is ", file.at(name).stored, ", expected F32, BF16 or F16");
    constexpr int64_t kRows = 1024;  // on the host at once
    const Tensor stored = files_.tensor(device(), name);
    const int64_t rows = stored.shape()[0], width = shape[1];
    std::vector<double> sums(static_cast<size_t>(width));
    for (int64_t first = 0; first < rows; first += kRows) {
      const auto part = cast(stored.part(0, first, std::min(rows, first + kRows)), DType::f32).to_host<float>();
      for (size_t i = 0; i < part.size(); ++i) sums[i % sums.size()] += double(part[i]);
    }
    std::vector<float> mean;
    for (int64_t row = rows; row < shape[0]; ++row)
      for (double sum : sums) mean.push_back(float(sum / double(rows)));
    const Tensor all = Tensor::empty(device(), shape, dtype());
    copy(cast(stored, dtype()), all.part(0, 0, rows));
    copy(cast(Tensor::from_host(device(), {shape[0] - rows, width}, mean), dtype()), all.part(0, rows, shape[0]));
    return all;
  }

  std::string stored_name(const std::string& wanted) const { return name_in_files(config_, files_, wanted); }

  // A head that is stored beside the embedding it is tied to must be that embedding: where it is not, versions of
  // transformers disagree about which of the two counts.
  void check_tied_head() const {
    const std::string head = stored_name(kHead), table = stored_name(std::string(token_embedding(config_.architecture)));
    if (!config_.tie_embeddings || table == head || head.empty()) return;
    const SafeTensors::Entry &a = files_.at(table), &b = files_.at(head);
    if (a.stored == b.stored && !std::ranges::equal(a.bytes, b.bytes))
      fail(ErrorCode::bad_file, files_.file_of(head).path(), "tensor '", head, "' differs from '", table,
           "', but tie_word_embeddings is true");
  }

  // Tensors that are not parameters: causal masks and rotary frequencies of older versions, a tied head, the parts for images.
  bool known_buffer(const std::string& name) const {
    if (name == stored_name(kHead)) return config_.tie_embeddings;
    if (begins_with_any(name, kImagePrefixes)) return is_multimodal(config_, files_);
    if (name.ends_with("rotary_emb.inv_freq")) return config_.architecture != Architecture::gpt2;
    return config_.architecture == Architecture::gpt2 && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
  }

  const ModelConfig& config_;
  const WeightFiles& files_;
  const bool add_embeddings_;
  std::set<std::string> used_;
};

// Dtype of the stored token embedding, if it can be read; errors in the file are reported later.
DType stored_dtype(const ModelConfig& config, const WeightFiles& files) {
  for (const std::string& wanted : {std::string(token_embedding(config.architecture)), std::string(kHead)})
    if (const std::string name = name_in_files(config, files, wanted); !name.empty()) return files.at(name).dtype.value_or(config.dtype);
  return config.dtype;
}

// Whether the head of a model of text and images is tied: no head is stored, or the config ties it and it equals the embedding.
// tie_word_embeddings alone does not decide, because versions of transformers read it from different objects of config.json.
bool stored_head_is_tied(const ModelConfig& config, const WeightFiles& files) {
  const std::string head = name_in_files(config, files, kHead);
  const std::string table = name_in_files(config, files, std::string(token_embedding(config.architecture)));
  return head.empty() || (config.tie_embeddings && std::ranges::equal(files.at(head).bytes, files.at(table).bytes));
}

DType running_dtype(const ModelConfig& config, const ModelOptions& options) {
  const DType dtype = options.dtype.value_or(config.dtype == DType::bf16 ? DType::bf16 : DType::f32);
  check(dtype == DType::f32 || dtype == DType::bf16, "load_model", "a model runs in f32 or bf16, got ", dtype);
  return dtype;
}

}  // namespace

std::unique_ptr<Model> load_model(const std::string& folder, Device& device, const ModelOptions& options, const std::string& adapter) {
  return load_model(folder, read_model_config(folder), device, options, adapter);
}

std::unique_ptr<Model> load_model(const std::string& folder, ModelConfig config, Device& device, const ModelOptions& options,
                                  const std::string& adapter) {
  if (options.dropout) config.embedding_dropout = config.attention_dropout = config.residual_dropout = *options.dropout;
  if (options.context) declare_context(config, *options.context);
  check(adapter.empty() || !options.lora, "load_model", "options.lora makes new adapters and cannot be combined with the adapter in ",
        adapter);
  const auto take = [&](auto& weights) {
    if (options.lora) weights.adapt(*options.lora);
    if (options.int8) weights.use_int8();
    if (!adapter.empty()) weights.adapt(read_adapter_options(adapter));
    std::unique_ptr<Model> model = make_model(config, weights);
    weights.check_all_used();
    if (!adapter.empty()) load_adapter(*model, adapter);
    return model;
  };
  if (is_gguf(folder)) {
    const Gguf file(folder);
    GgufWeights weights(device, running_dtype(config, options), options.trainable, config, file);
    return take(weights);
  }
  const WeightFiles files(folder);
  config.dtype = stored_dtype(config, files);
  if (is_multimodal(config, files)) config.tie_embeddings = stored_head_is_tied(config, files);
  FolderWeights weights(device, running_dtype(config, options), options, config, files);
  return take(weights);
}

}  // namespace weft
