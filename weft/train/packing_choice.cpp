#include "weft/train/packing_choice.h"

#include "weft/autograd/backward.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/uniform/uniform.h"

namespace weft {
namespace {

// Rehearses four tokens without memory or work. Throws unsupported where a kernel is missing. All layers: they are not all of one kind, and
// LoRA may have targets in some of them.
void rehearse_documents(const TrainConfig& config, const std::string& device_name) {
  const auto device = open_planned(device_name, {.threads = int(config.threads)});
  const auto model = make_planned_model(config, model_config(config), *device);
  const TokenBatch two{.rows = 1, .tokens = 4, .ids = {0, 0, 0, 0}, .targets = {0, 0, 0, 0}, .documents = {0, 2}, .document_capacity = 2};
  LossOptions options{.recompute = config.recompute};
  if (model->has_dropout()) options.dropout = random_state(*device, 0);
  options.documents = two.upload_documents(*device);
  model->loss(two.upload_ids(*device), two.upload_targets(*device), options).backward();
}

}  // namespace

void choose_packing(TrainConfig& config, const std::string& device, const Notice& notice) {
  if (!config.packing.empty() || config.data == "sums") return;
  config.packing = name(Packing::documents);
  try {
    rehearse_documents(config, device);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    config.packing = name(config.task == "sft" ? Packing::none : Packing::concatenate);
    notice(join("packing is ", config.packing, ", as this device cannot keep documents apart: ", error.what()));
  }
}

}  // namespace weft
