// weft export: writes a model as a folder that transformers loads.
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "weft/backends/open.h"
#include "weft/models/folder.h"
#include "weft/train/best.h"
#include "weft/train/work_line.h"

namespace weft::cli {
namespace {

struct Options {
  std::string from, to, adapter, dtype, device = "cpu";
  bool best = false;
};

// The best model of the run folder given as MODEL_DIR.
Options with_best(Options options) {
  if (!options.best) return options;
  const BestSource best = best_source(options.from);
  std::fprintf(stderr, "%s: best model, step %lld, validation loss %.4f\n", options.from.c_str(), (long long)best.record.step,
               best.record.validation_loss);
  options.from = best.model;
  options.adapter = best.adapter;
  return options;
}

int run(const Options& given) {
  const Options options = with_best(given);
  ShownProgress progress;
  const auto device = open_device(options.device);
  const ModelFolder folder(options.from, options.adapter);
  const auto model = folder.load(*device);
  const DType dtype = options.dtype.empty() ? model->config().dtype : export_dtype(options.dtype);
  export_model(*model, options.to,
               {.dtype = dtype, .like = options.from, .tokenizer = folder.has_tokenizer() ? folder.tokenizer_folder().path() : ""});
  progress.hide();
  std::printf("%s: %s, %lld parameters, %s\n", options.to.c_str(), std::string(name(model->config().architecture)).c_str(),
              static_cast<long long>(model->config().parameter_count()), std::string(name(dtype)).c_str());
  return kOk;
}

}  // namespace

Run add_export(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Write a model as a Hugging Face folder");
  command->footer("Weights keep their stored dtype unless --dtype is given; tokenizer files are copied.");
  auto options = std::make_shared<Options>();
  command->add_option("MODEL_DIR", options->from, "A Hugging Face model folder")->required();
  command->add_option("OUT_DIR", options->to, "Folder to write")->required();
  auto* adapter = command->add_option("--adapter", options->adapter, "Folder with a LoRA adapter to merge into the weights");
  command->add_flag("--best", options->best, "MODEL_DIR is the folder of a training run: export its model with the lowest validation loss")
      ->excludes(adapter);
  command->add_option("--dtype", options->dtype, "dtype of the written weights: f32, bf16 or f16");
  command->add_option("--device", options->device, "Device to load the model on");
  return [options] { return run(*options); };
}

}  // namespace weft::cli
