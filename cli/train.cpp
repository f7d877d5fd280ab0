// weft train: trains a model on data and writes it to a folder.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <unistd.h>

#include "cli/command.h"
#include "cli/peak_flops.h"
#include "cli/suggest.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/train/capture.h"
#include "weft/train/trainer.h"
#include "weft/train/work_line.h"

namespace weft::cli {
namespace {

struct Options {
  TrainConfig flags;
  std::string config_file, replay, command_line;
  bool resume = false, plan = false;
  CLI::App* command = nullptr;
};

// Applies the settings of the config file, then the flags.
TrainConfig changed(TrainConfig config, const Options& options) {
  if (!options.config_file.empty()) read_config(options.config_file, config);
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
  TrainConfig run;
  read_config(before, run);
  run.out = out;
  return changed(run, options);
}

std::atomic<bool> stop_requested = false;

// The first Ctrl-C (or SIGTERM) makes the trainer save and stop; the second one exits at once.
extern "C" void on_interrupt(int) {
  if (stop_requested.exchange(true)) ::_exit(130);
  constexpr char kText[] = "\nstopping and saving the last finished step; press Ctrl-C again to stop at once\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
}

// The terminal was closed, or the reader of the output pipe exited: stop without a message.
extern "C" void on_hangup(int) { stop_requested = true; }

// Installs a handler. Signals that the caller ignores (nohup) stay ignored.
void on_signal(int signal, void (*handler)(int)) {
  if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
}

int print_plan(const TrainConfig& config) {
  ShownProgress progress;
  const auto device = open_device(config.device, {.threads = int(config.threads)});
  const TrainingProblem problem = make_problem(config, [&](const std::string& text) {
    progress.hide();
    std::fprintf(stderr, "%s\n", text.c_str());
  });
  const Plan plan = make_plan(config, problem);
  progress.hide();
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

int train(const TrainConfig& config, const Options& options) {
  const auto peak = [&](Device& device) {
    return peak_flops(device, config.threads > 0 ? int(config.threads) : available_threads(), config.dtype == "bf16");
  };
  Trainer trainer(config,
                  {.resume = options.resume, .out = stderr, .stop = &stop_requested, .peak_flops = peak, .command = options.command_line});
  const TrainOutcome outcome = trainer.run();
  if (outcome.evaluation) {
    std::printf("validation loss %.4f after step %lld\n", outcome.evaluation->validation_loss, (long long)outcome.evaluation->step);
    if (outcome.evaluation->accuracy) std::printf("%.2f %% of unseen sums right\n", 100 * *outcome.evaluation->accuracy);
  }
  if (outcome.best && outcome.evaluation && outcome.best->step != outcome.evaluation->step)
    std::printf("best validation loss %.4f after step %lld: %s/best\n", outcome.best->validation_loss, (long long)outcome.best->step,
                outcome.folder.c_str());
  if (!outcome.finished)
    std::printf("stopped after step %lld; weft train --resume --out %s continues\n", (long long)outcome.step, outcome.folder.c_str());
  std::printf("report: %s\n", outcome.report.c_str());
  return kOk;
}

int run(const Options& options) {
  const TrainConfig config = resolve(options);
  if (!options.replay.empty()) return replay(options.replay, config);
  check_config(config);
  if (options.plan) return print_plan(resolved(config));
  on_signal(SIGINT, on_interrupt);
  on_signal(SIGTERM, on_interrupt);
  on_signal(SIGHUP, on_hangup);
  on_signal(SIGPIPE, on_hangup);
  std::signal(SIGXFSZ, SIG_IGN);  // at the file size limit write() fails; the process is not killed
  try {
    return train(config, options);
  } catch (const Stopped&) {
    std::puts(options.resume ? "stopped before training continued; the run is unchanged"
                             : "stopped before the first step; run the same command to start again");
    return kOk;
  }
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
  for (const Setting& setting : settings()) add_setting(*command, *options, setting);
  return [options] { return run(*options); };
}

}  // namespace weft::cli
