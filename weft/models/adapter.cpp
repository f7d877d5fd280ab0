#include "weft/models/adapter.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "weft/io/atomic_files.h"
#include "weft/io/json.h"
#include "weft/io/recognise.h"
#include "weft/io/safetensors.h"
#include "weft/io/safetensors_writer.h"
#include "weft/models/adapter_config.h"
#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "base_model.model.", kA = ".lora_A.weight", kB = ".lora_B.weight";

constexpr const char* kConfig = "adapter_config.json";

std::string config_path(const std::string& folder) { return (fs::path(folder) / kConfig).string(); }
std::string weights_path(const std::string& folder) { return (fs::path(folder) / "adapter_model.safetensors").string(); }

// The shortest ends of names that mean these layers and no others.
std::set<std::string> targets_of(const Model& model) {
  const auto adapted = [&](const std::string& layer) {
    return std::ranges::any_of(model.adapters(), [&](const LoraAdapter& a) { return a.layer == layer; });
  };
  const auto means_adapted_only = [&](const std::string& target) {
    return std::ranges::all_of(model.parameters(), [&](const NamedTensor& p) {
      const std::string layer = p.name.substr(0, p.name.rfind('.'));
      return !lora_target(target, layer) || adapted(layer);
    });
  };
  std::set<std::string> targets;
  for (const LoraAdapter& adapter : model.adapters()) {
    size_t dot = adapter.layer.rfind('.');
    while (dot != std::string::npos && dot > 0 && !means_adapted_only(adapter.layer.substr(dot + 1)))
      dot = adapter.layer.rfind('.', dot - 1);
    targets.insert(dot == std::string::npos ? adapter.layer : adapter.layer.substr(dot + 1));
  }
  return targets;
}

std::string config_json(const Model& model, const std::string& base) {
  const LoraAdapter& first = model.adapters().front();
  const int64_t rank = first.matrices.a.shape()[0];
  nlohmann::ordered_json json;
  json["peft_type"] = "LORA";
  json["task_type"] = "CAUSAL_LM";
  json["base_model_name_or_path"] = base;
  json["inference_mode"] = true;
  json["r"] = rank;
  const double alpha = double(first.matrices.scale) * double(rank);
  if (alpha == std::floor(alpha))
    json["lora_alpha"] = int64_t(alpha);
  else
    json["lora_alpha"] = alpha;
  json["lora_dropout"] = first.matrices.dropout;
  json["target_modules"] = targets_of(model);
  json["fan_in_fan_out"] = first.transposed;
  json["bias"] = "none";
  json["modules_to_save"] = nullptr;
  json["init_lora_weights"] = true;
  json["use_rslora"] = false;
  json["use_dora"] = false;
  return json.dump(2) + "\n";
}

void fill(const Tensor& into, const SafeTensors& file, const std::string& name) {
  if (!(file.at(name).shape == into.shape()))
    fail(ErrorCode::bad_file, file.path(), "tensor '", name, "' has shape ", file.at(name).shape, ", expected ", into.shape());
  if (!is_float(file.dtype(name)))
    fail(ErrorCode::unsupported, file.path(), "tensor '", name, "' is ", file.at(name).stored, ", expected F32, BF16 or F16");
  const NoGrad no_grad;
  copy(tensor_from(into.device(), file, name), into);
}

}  // namespace

void save_adapter(const Model& model, const std::string& folder, const std::string& base) {
  AtomicFiles files;
  add_adapter_files(model, folder, base, files);
  files.commit();
}

void add_adapter_files(const Model& model, const std::string& folder, const std::string& base, AtomicFiles& to) {
  check(!model.adapters().empty(), "save_adapter", "the model has no adapters");
  to.add(config_path(folder), config_json(model, base));
  std::vector<DeferredTensor> tensors;
  for (const LoraAdapter& adapter : model.adapters())
    for (const auto& [name, matrix] : {std::pair{adapter.a_name(), adapter.matrices.a}, {adapter.b_name(), adapter.matrices.b}})
      tensors.push_back({name, matrix.dtype(), matrix.shape(), [matrix = matrix.detach()] { return matrix; }});
  write_safetensors(to.add(weights_path(folder)), tensors, {{"format", "pt"}}, Floats::finite);
}

LoraOptions read_adapter_options(const std::string& folder) {
  const Json json = read_json(expected_in_adapter(folder, kConfig));
  const JsonNode config(config_path(folder), json);
  check_plain_lora(config);
  LoraOptions options;
  options.stored = true;
  options.rank = config.at("r").integer(1, 1 << 20);
  const double alpha = config.number_or("lora_alpha", 8);
  options.scale = alpha / (config.boolean_or("use_rslora", false) ? std::sqrt(double(options.rank)) : double(options.rank));
  const SafeTensors file(weights_path(folder));
  for (const auto& [name, entry] : file.entries()) {
    const bool known = name.starts_with(kPrefix) && (name.ends_with(kA) || name.ends_with(kB)) && name.size() > kPrefix.size() + kA.size();
    if (!known) fail(ErrorCode::unsupported, file.path(), "has a tensor '", name, "', expected names like ", kPrefix, "<layer>", kA);
    if (!name.ends_with(kA)) continue;
    if (entry.shape.rank() != 2 || entry.shape[0] != options.rank)
      fail(ErrorCode::bad_file, file.path(), "has a tensor '", name, "' of shape ", entry.shape, ", and the r of ", config_path(folder),
           " is ", options.rank);
    options.targets.push_back(name.substr(kPrefix.size(), name.size() - kPrefix.size() - kA.size()));
  }
  if (options.targets.empty()) fail(ErrorCode::bad_file, file.path(), "holds no adapter");
  return options;
}

void load_adapter(const Model& model, const std::string& folder) {
  const SafeTensors file(weights_path(folder));
  for (const LoraAdapter& adapter : model.adapters()) {
    fill(adapter.matrices.a, file, adapter.a_name());
    fill(adapter.matrices.b, file, adapter.b_name());
  }
  if (file.entries().size() != 2 * model.adapters().size())
    fail(ErrorCode::bad_file, file.path(), "has ", file.entries().size(), " tensors, the model's adapters are ",
         2 * model.adapters().size());
}

void add_adapter(Model& model, const std::string& name, const std::string& folder) {
  const NoGrad no_grad;
  const MemoryScope scope(model.device(), MemoryUse::weights);
  const LoraOptions options = read_adapter_options(folder);
  const SafeTensors file(weights_path(folder));
  std::vector<LoraAdapter> layers;
  for (const std::string& layer : options.targets) {
    LoraAdapter adapter{layer, LowRank()};
    adapter.matrices.scale = float(options.scale);
    const auto matrix = [&](const std::string& tensor) {
      if (!file.contains(tensor)) fail(ErrorCode::bad_file, file.path(), "has no tensor '", tensor, "'");
      if (!is_float(file.dtype(tensor)) || file.at(tensor).shape.rank() != 2)
        fail(ErrorCode::unsupported, file.path(), "tensor '", tensor, "' is ", file.at(tensor).stored, " of shape ", file.at(tensor).shape,
             ", expected a matrix of F32, BF16 or F16");
      return cast(tensor_from(model.device(), file, tensor), model.dtype());
    };
    adapter.matrices.a = matrix(adapter.a_name());
    adapter.matrices.b = matrix(adapter.b_name());
    layers.push_back(std::move(adapter));
  }
  model.add_adapter(name, layers);
}

}  // namespace weft
