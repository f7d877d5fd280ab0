// The tool's subcommands. Each adds itself to the parser and returns what to run if it was the one asked for; the
// number it gives is the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace weft::cli {

inline constexpr int kOk = 0;       // all is well
inline constexpr int kFailed = 1;   // it ran, and something did not pass
inline constexpr int kUsage = 2;    // the command line or a file makes no sense
inline constexpr int kMissing = 3;  // the device, kernel or option of a model asked for is not there

using Run = std::function<int()>;

Run add_devices(CLI::App& app);
Run add_inspect(CLI::App& app);
Run add_tokenize(CLI::App& app);
Run add_generate(CLI::App& app);
Run add_eval(CLI::App& app);
Run add_export(CLI::App& app);
Run add_check(CLI::App& app);
Run add_bench(CLI::App& app);
Run add_support(CLI::App& app);
Run add_train(CLI::App& app, std::string command_line);  // for the report
Run add_report(CLI::App& app);

}  // namespace weft::cli
