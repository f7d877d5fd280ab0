// Errors for unknown options and commands: they suggest the one probably meant.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

// --learning-rate for the setting learning_rate.
std::string flag_of(std::string_view key);

// The arguments after the program's name, with flags as documented: dashes for underscores (--batch_size), and for `train` other
// tools' names of a setting (--lr). Arguments after a lone "--" stay unchanged. "help COMMAND" is "COMMAND --help".
std::vector<std::string> with_known_names(int argc, char** argv);

std::string unknown_command(const CLI::App& app, const std::string& given);

// Describes in one line the argument that made parsing fail: "unknown option --lerning-rate; did you mean --learning-rate?"
std::string wrong_arguments(const CLI::App& app, const CLI::ParseError& error);

}  // namespace weft::cli
