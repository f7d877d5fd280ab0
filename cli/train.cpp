// weft train: trains a model on data and writes it to a folder.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/peak_flops.h"
#include "cli/ranked.h"
#include "cli/suggest.h"
#include "cli/train_signals.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/comm/cores.h"
#include "weft/comm/launch.h"
#include "weft/comm/on_device.h"
#include "weft/train/capture.h"
#include "weft/train/packing_choice.h"
#include "weft/train/same_on_ranks.h"
#include "weft/train/trainer.h"
#include "weft/train/work_line.h"

namespace weft::cli {
namespace {

struct Options {
  TrainConfig flags;
  std::string config_file, replay, command_line;
  bool resume = false, plan = false;
  int64_t ranks = 0;
  CLI::App* command = nullptr;
};

// Applies the settings of the config file, then the flags. Each of --steps and --epochs overrides the other of an earlier place.
TrainConfig changed(TrainConfig config, const Options& options) {
  const auto one_length = [](TrainConfig& before, int64_t steps, double epochs) {
    if (steps > 0) before.epochs = 0;
    if (epochs > 0) before.steps = 0;
  };
  if (!options.config_file.empty()) {
    TrainConfig file;
    read_config(options.config_file, file);
    one_length(config, file.steps, file.epochs);
    read_config(options.config_file, config);
  }
  one_length(config, options.flags.steps, options.flags.epochs);
  for (const Setting& setting : settings())
    if (options.command->count(flag_of(setting.key)) > 0)
      std::visit([&](auto field) { config.*field = options.flags.*field; }, setting.field);
  return config;
}

// A resumed run keeps its settings, except those given again.
TrainConfig resolve(const Options& options) {
  const TrainConfig config = changed({}, options);
  if (!options.resume) return config;
  const std::string out = config.out.empty() ? resolved(config).out : config.out, before = out + "/config.toml";
  if (!std::filesystem::exists(before)) return config;
  TrainConfig run = read_run_config(before);
  run.out = out;
  return changed(run, options);
}

int print_plan(TrainConfig config, int64_t ranks) {
  ShownProgress progress;
  const auto device = open_device(config.device, {.threads = int(config.threads)});
  const auto print = [&](const std::string& text) {
    progress.hide();
    std::fprintf(stderr, "%s\n", text.c_str());
  };
  choose_packing(config, config.device, print);
  const TrainingProblem problem = make_problem(config, print);
  const Plan plan = make_plan(config, problem, int(ranks));
  progress.hide();
  if (config.epochs > 0)
    std::printf("%lld steps: %g epochs of %lld sequences\n", (long long)steps_of(config, problem), config.epochs,
                (long long)problem.data->sequences_per_epoch());
  std::printf("%s", plan_text(plan, device->memory()).c_str());
  check_fits(plan, config, device->memory());
  return kOk;
}

// Recomputes a captured step; it is reproduced when loss and gradient norm are equal.
int replay(const std::string& path, const TrainConfig& config) {
  ShownProgress progress;
  const Replay replay = replay_capture(path, config.device, int(config.threads));
  progress.hide();
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  std::printf("step %lld: loss %g, gradient norm %g\n", (long long)replay.captured.step, replay.result.loss, replay.result.gradient_norm);
  std::printf("%s\n", replay.bad ? bad_text(*replay.bad).c_str() : "every tensor is finite");
  if (same(replay.result.loss, replay.captured.loss) && same(replay.result.gradient_norm, replay.captured.gradient_norm)) return kOk;
  std::printf("the run had loss %g, gradient norm %g: not reproduced\n", replay.captured.loss, replay.captured.gradient_norm);
  return kFailed;
}

void print_outcome(const TrainOutcome& outcome) {
  if (outcome.evaluation) {
    std::printf("validation loss %.4f after step %lld\n", outcome.evaluation->validation_loss, (long long)outcome.evaluation->step);
    if (outcome.evaluation->accuracy) std::printf("%.2f %% of unseen sums right\n", 100 * *outcome.evaluation->accuracy);
  }
  if (outcome.best && outcome.evaluation && outcome.best->step != outcome.evaluation->step)
    std::printf("best validation loss %.4f after step %lld: %s/best\n", outcome.best->validation_loss, (long long)outcome.best->step,
                outcome.folder.c_str());
  if (outcome.early)
    std::printf("ended after step %lld: no lower validation loss in %lld evaluations\n", (long long)outcome.early->step,
                (long long)outcome.early->evaluations);
  if (outcome.skipped)
    std::printf("%lld %s skipped: loss or gradient norm not finite\n", (long long)outcome.skipped,
                outcome.skipped == 1 ? "step was" : "steps were");
  if (!outcome.finished)
    std::printf("stopped after step %lld; weft train --resume --out %s continues\n", (long long)outcome.step, outcome.folder.c_str());
  std::printf("report: %s\n", outcome.report.c_str());
}

// The device of this rank: of several ranks with --device cuda each has the GPU of its place on its host, and with --device cpu its part
// of the cores.
std::shared_ptr<Device> device_of_rank(const TrainConfig& config, int threads) {
  const Launch launch = launch_of_environment();
  const bool own_gpu = config.device == "cuda" && launch.size > 1;
  return open_device(own_gpu ? cuda_device_of(launch.local_rank, launch.local_size) : config.device, {.threads = threads});
}

int train(std::unique_ptr<Communicator>& ranks, const TrainConfig& config, const Options& options) {
  const auto timeout = std::chrono::seconds(config.timeout);
  check_same(*ranks, {{"kind of device", config.device.substr(0, config.device.find(':'))}});  // or some would wait for others' cores
  const int threads = config.device == "cpu" ? share_cores(*ranks, int(config.threads)) : int(config.threads);
  std::shared_ptr<Device> device;
  Agreement(*ranks, timeout).all([&] { device = device_of_rank(config, threads); });
  ranks = on_device(std::move(ranks), *device, timeout);
  const auto peak = [&](Device& device) { return peak_flops(device, threads > 0 ? threads : available_threads(), config.dtype == "bf16"); };
  const bool first = ranks->first();
  try {
    Trainer trainer(config, {.resume = options.resume,
                             .out = stderr,
                             .stop = &stop_requested,
                             .peak_flops = peak,
                             .command = options.command_line,
                             .ranks = ranks.get(),
                             .device = device});
    const TrainOutcome outcome = trainer.run();
    if (first) print_outcome(outcome);
  } catch (const Stopped&) {
    if (first)
      std::puts(options.resume ? "stopped before training continued; the run is unchanged"
                               : "stopped before the first step; run the same command to start again");
  }
  return kOk;
}

// Plans and replays are made by one process.
int run_alone(const Options& options) {
  if (!first_of_several()) return kOk;
  check(options.ranks == 0 || options.plan, "train", "--ranks is for --plan");
  const TrainConfig config = resolve(options);
  if (!options.replay.empty()) return replay(options.replay, config);
  check_config(config);
  return print_plan(resolved(config), options.ranks > 0 ? options.ranks : launch_of_environment().size);
}

// Several ranks: they meet before the config is read, so that an error in reading it is printed once.
int run(const Options& options) {
  if (options.plan || !options.replay.empty()) return run_alone(options);
  TrainConfig config;
  std::exception_ptr wrong;
  try {
    check(options.ranks == 0, "train", "--ranks is for --plan; mpirun or srun start the ranks of a run");
    config = resolve(options);
    check_config(config);
  } catch (const Error&) {
    if (!one_of_several()) throw;
    wrong = std::current_exception();
  }
  const Launch launch = launch_of_environment();
  handle_train_signals(launch.rank, launch.size);
  std::unique_ptr<Communicator> ranks =
      open_communicator({.timeout = std::chrono::seconds(wrong ? TrainConfig().timeout : config.timeout)});
  return ranked(ranks, [&] {
    Agreement(*ranks).all([&] {
      if (wrong) std::rethrow_exception(wrong);
    });
    return train(ranks, config, options);
  });
}

// A flag that is on by default has a second name that turns it off: --no-keep-best.
std::string flag_names(std::string_view key, bool on) { return on ? flag_of(key) + ",!--no" + flag_of(key).substr(1) : flag_of(key); }

void add_setting(CLI::App& command, Options& options, const Setting& setting) {
  std::visit(
      [&]<class T>(T TrainConfig::* field) {
        T& value = options.flags.*field;
        CLI::Option* option = nullptr;
        if constexpr (std::is_same_v<T, bool>)
          option = command.add_flag(flag_names(setting.key, value), value, std::string(setting.help));
        else
          option = command.add_option(flag_of(setting.key), value, std::string(setting.help))->capture_default_str();
        option->group(std::string(setting.group));
      },
      setting.field);
}

}  // namespace

Run add_train(CLI::App& app, std::string command_line) {
  CLI::App* command = app.add_subcommand("train", "Train a model on text, or on built-in sums");
  auto options = std::make_shared<Options>();
  options->command = command;
  options->command_line = std::move(command_line);
  command->add_option("--config", options->config_file, "TOML file with any of the settings below; flags override it")
      ->check(CLI::ExistingFile);
  command->add_option("--replay", options->replay,
                      "Recompute a captured step (capture-<step>.safetensors) and report the first tensor that is not finite");
  command->add_flag("--resume", options->resume,
                    "Continue from the newest checkpoint in --out with its settings, except those given again");
  command->add_flag("--plan", options->plan, "Print the memory plan and FLOPs of a step without training");
  command
      ->add_option("--ranks", options->ranks,
                   "With --plan: the number of ranks, for the memory of each (mpirun or srun start the ranks of a run)")
      ->check(CLI::Range(1, 65536));
  for (const Setting& setting : settings()) add_setting(*command, *options, setting);
  return [options] { return run(*options); };
}

}  // namespace weft::cli
