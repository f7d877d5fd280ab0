#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/numbers.h"
#include "cli/ranked.h"
#include "cli/suggest.h"
#include "weft/base/error.h"

namespace {

// Flushes stdout: a command whose output does not fit on a full disk fails.
int written(int code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  std::perror("weft: cannot write the output");
  return code == weft::cli::kOk ? weft::cli::kUsage : code;
}

// If stdin, stdout or stderr is closed, the next open() reuses its number and our messages would land in that file.
void open_standard_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && ::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0) return;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace weft::cli;
  open_standard_streams();
  CLI::App app{"Weft: train and run transformers on CPU, CUDA and Metal.", "weft"};
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.require_subcommand(1);
  const std::pair<const char*, Run> commands[] = {
      {"devices", add_devices(app)},   {"inspect", add_inspect(app)},
      {"tokenize", add_tokenize(app)}, {"generate", add_generate(app)},
      {"eval", add_eval(app)},         {"export", add_export(app)},
      {"check", add_check(app)},       {"bench", add_bench(app)},
      {"support", add_support(app)},   {"train", add_train(app, command_line(argc, argv))},
      {"report", add_report(app)},     {"chat", add_chat(app)},
      {"score", add_score(app)},       {"tokenizer", add_tokenizer(app)},
      {"prepare", add_prepare(app)},   {"serve", add_serve(app)},
  };
  check_numbers(app);
  // CLI11 alone would only report that a subcommand is required.
  if (argc < 2) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  std::vector<std::string> arguments = with_known_names(argc, argv);
  const auto is_word = [&](const auto& command) { return command.first == arguments[0]; };
  if (std::none_of(std::begin(commands), std::end(commands), is_word) && !app.get_option_no_throw(arguments[0])) {
    std::fprintf(stderr, "weft: %s\n", unknown_command(app, arguments[0]).c_str());
    return kUsage;
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects the arguments in reverse
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    const bool ranks = std::string_view(argv[1]) == "train" && one_of_several();
    if (error.get_exit_code() == 0) return ranks && !first_of_several() ? kOk : app.exit(error);  // --help, --version
    const std::string wrong = wrong_arguments(app, error);
    if (ranks) return wrong_usage(wrong);  // all ranks have come so far, or wait for those that have not
    std::fprintf(stderr, "weft: %s\n", wrong.c_str());
    return kUsage;
  }
  try {
    for (const auto& [name, run] : commands)
      if (app.got_subcommand(name)) return written(run());
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return exit_code(error.code());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "weft: out of memory\n");
    return kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return kFailed;
  }
  return kUsage;
}
