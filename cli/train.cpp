// weft train: from data to a trained model in a folder.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <unistd.h>

#include "bench/ceilings.h"
#include "cli/command.h"
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

// The file's settings first, then the flags that were given.
TrainConfig changed(TrainConfig config, const Options& options) {
  if (!options.config_file.empty()) read_config(options.config_file, config);
  for (const Setting& setting : settings())
    if (options.command->count(flag_of(setting.key)) > 0)
      std::visit([&](auto field) { config.*field = options.flags.*field; }, setting.field);
  return config;
}

// A run that goes on is what it was, but for what is said anew.
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

// The first Ctrl-C (or SIGTERM) asks the trainer to save and end; the second ends at once.
extern "C" void on_interrupt(int) {
  if (stop_requested.exchange(true)) ::_exit(130);
  constexpr char kText[] = "\nstopping and saving the last finished step; press Ctrl-C again to stop at once\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
}

// Nobody is watching any more: the terminal was closed, or what the output was piped into has ended.
extern "C" void on_nobody_watching(int) { stop_requested = true; }

// What the caller ignores (nohup) stays ignored.
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

// Computes a captured step again; it is reproduced when loss and norm are what they were.
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

// What the device can do at most in the run's dtype: bf16 against its dot products, where it has them. Nothing, and no
// utilisation is told, on a device whose ceilings nobody has written.
PeakFlops peak_flops(Device& device, int threads, bool bf16) {
  if (device.traits().simulated) return {};  // a simulator's rate says nothing
  try {
    const auto ceilings = bench::ceilings_of(device, threads);
    if (device.name() != "cpu") return {ceilings->undisturbed(bench::Ceiling::fma), "bf16 matrix products"};
    const double dot = bf16 ? ceilings->undisturbed(bench::Ceiling::bf16_dot) : 0;
    return dot > 0 ? PeakFlops{dot, "bf16 dot products"} : PeakFlops{ceilings->undisturbed(bench::Ceiling::fma), "f32 multiply-adds"};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return {};
  }
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
    std::printf("stopped after step %lld; weft train --resume --out %s goes on\n", (long long)outcome.step, outcome.folder.c_str());
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
  on_signal(SIGHUP, on_nobody_watching);
  on_signal(SIGPIPE, on_nobody_watching);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its write, not the end of the process
  try {
    return train(config, options);
  } catch (const Stopped&) {
    std::puts(options.resume ? "stopped before training went on; the run is as it was"
                             : "stopped before the first step; the same command begins again");
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
  command->add_option("--config", options->config_file, "A TOML file with any of the settings below; flags win over it")
      ->check(CLI::ExistingFile);
  command->add_option("--replay", options->replay,
                      "Compute a captured step again (capture-<step>.safetensors) and say where it went wrong");
  command->add_flag("--resume", options->resume,
                    "Go on from the newest checkpoint in --out, with the settings it has but for those given anew");
  command->add_flag("--plan", options->plan, "Print memory by use and the work of a step, and train nothing");
  for (const Setting& setting : settings()) add_setting(*command, *options, setting);
  return [options] { return run(*options); };
}

}  // namespace weft::cli
