// The tool's subcommands. Each add_<command> registers its command with the parser and returns the function that runs it, whose
// result is the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace weft::cli {

inline constexpr int kOk = 0;       // success
inline constexpr int kFailed = 1;   // the command ran and something did not pass
inline constexpr int kUsage = 2;    // the command line or an input file is invalid
inline constexpr int kMissing = 3;  // the requested device, kernel or model option is not available

using Run = std::function<int()>;

Run add_devices(CLI::App& app);
Run add_inspect(CLI::App& app);
Run add_tokenize(CLI::App& app);
Run add_tokenizer(CLI::App& app);
Run add_generate(CLI::App& app);
Run add_chat(CLI::App& app);
Run add_eval(CLI::App& app);
Run add_score(CLI::App& app);
Run add_export(CLI::App& app);
Run add_check(CLI::App& app);
Run add_bench(CLI::App& app);
Run add_support(CLI::App& app);
Run add_train(CLI::App& app, std::string command_line);  // command_line: shown in the report
Run add_prepare(CLI::App& app);
Run add_report(CLI::App& app);
Run add_serve(CLI::App& app);

}  // namespace weft::cli
