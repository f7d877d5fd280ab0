// weft export: writes a model as a folder that transformers loads, or as a GGUF file that llama.cpp loads.
#include <cstdio>
#include <filesystem>
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
  int64_t context = 0;
  bool best = false;
};

constexpr std::string_view kRandom = "random:";  // prefix of a preset's name
constexpr uint64_t kRandomSeed = 1;

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

// Writes the model, which was loaded from `like` ("" for a random one), with the tokenizer at `tokenizer` ("": none).
int write(const Model& model, const Options& options, const std::string& like, const std::string& tokenizer, ShownProgress& progress) {
  const std::string dtype = options.dtype.empty() ? std::string(name(model.config().dtype)) : options.dtype;
  if (std::filesystem::path(options.to).extension() == ".gguf")
    export_gguf(model, options.to, {.dtype = dtype, .like = like, .tokenizer = tokenizer});
  else
    export_model(model, options.to, {.dtype = export_dtype(dtype), .like = like, .tokenizer = tokenizer});
  progress.hide();
  std::printf("%s: %s, %lld parameters, %s\n", options.to.c_str(), std::string(name(model.config().architecture)).c_str(),
              static_cast<long long>(model.config().parameter_count()), dtype.c_str());
  return kOk;
}

int run(const Options& given) {
  const Options options = with_best(given);
  ShownProgress progress;
  const auto device = open_device(options.device);
  if (options.from.starts_with(kRandom)) {
    check(options.adapter.empty(), "export", "--adapter needs a model folder, not ", options.from);
    check(options.context == 0, "export", "--context needs a model folder, not ", options.from);
    const ModelConfig config = preset(options.from.substr(kRandom.size()));
    return write(*make_model(config, *device, kRandomSeed, {.dtype = DType::f32}), options, "", "", progress);
  }
  const ModelFolder folder(options.from, options.adapter, options.context);
  const auto model = folder.load(*device);
  return write(*model, options, options.from, folder.has_tokenizer() ? folder.tokenizer_folder().path() : "", progress);
}

}  // namespace

Run add_export(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Write a model as a Hugging Face folder or a GGUF file");
  command->footer(
      "Weights keep their stored dtype unless --dtype is given; tokenizer files are copied. A path that ends in .gguf is written as one "
      "file "
      "for llama.cpp, with tokenizer and chat template; quantised weights of a GGUF file are read as f32.");
  auto options = std::make_shared<Options>();
  command
      ->add_option("MODEL_DIR", options->from,
                   "A Hugging Face model folder, a GGUF file, or random:SHAPE for random weights (smollm2-135m, ...)")
      ->required();
  command->add_option("OUT", options->to, "Folder to write, or a file that ends in .gguf")->required();
  auto* adapter = command->add_option("--adapter", options->adapter, "Folder with a LoRA adapter to merge into the weights");
  command->add_flag("--best", options->best, "MODEL_DIR is the folder of a training run: export its model with the lowest validation loss")
      ->excludes(adapter);
  command->add_option("--dtype", options->dtype, "dtype of the written weights: f32, bf16 or f16; in a GGUF file also q8_0");
  command->add_option("--context", options->context,
                      "Context length to write (default: the model's); dynamic and longrope are computed from it");
  command->add_option("--device", options->device, "Device to load the model on");
  return [options] { return run(*options); };
}

}  // namespace weft::cli
