#include <algorithm>
#include <cstdio>
#include <string_view>

#include "cli/command.h"
#include "weft/base/error.h"

namespace {

int exit_code(weft::ErrorCode code) {
  switch (code) {
    case weft::ErrorCode::unsupported: return weft::cli::kMissing;
    case weft::ErrorCode::device_fault: return weft::cli::kFailed;  // asked in a way that makes sense; what came out does not
    default: return weft::cli::kUsage;
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace weft::cli;
  CLI::App app{"Weft: training and running transformers on CPU, CUDA and Metal behind one device contract.", "weft"};
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  const std::pair<const char*, Run> commands[] = {
      {"devices", add_devices(app)},
      {"inspect", add_inspect(app)},
      {"tokenize", add_tokenize(app)},
      {"generate", add_generate(app)},
      {"eval", add_eval(app)},
      {"export", add_export(app)},
      {"check", add_check(app)},
      {"bench", add_bench(app)},
      {"support", add_support(app)},
      {"train", add_train(app)},
  };
  // CLI11 would only say that a subcommand is required.
  const auto known = [&](const char* word) {
    return std::any_of(std::begin(commands), std::end(commands), [&](const auto& command) { return std::string_view(command.first) == word; });
  };
  if (argc > 1 && argv[1][0] != '-' && !known(argv[1])) {
    std::fprintf(stderr, "weft: there is no command '%s'; see weft --help\n", argv[1]);
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kOk : kUsage;
  }
  try {
    for (const auto& [name, run] : commands)
      if (app.got_subcommand(name)) return run();
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return exit_code(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return kFailed;
  }
  return kUsage;
}
