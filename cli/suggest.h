// Errors for options and commands that do not exist: they name the one that was probably meant.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

// --learning-rate, of the setting learning_rate.
std::string flag_of(std::string_view key);

// The arguments after the program's name, with flags as they are documented: dashes for underscores (--batch_size), and for
// `train` the names that other tools have for a setting (--lr). What follows a lone "--" stays as it is.
std::vector<std::string> with_known_names(int argc, char** argv);

// "no option --lerning-rate; did you mean --learning-rate?"
std::string unknown_option(const CLI::App& command, const std::string& given);
std::string unknown_command(const CLI::App& app, const std::string& given);

// The unknown option that made parsing fail, described; "" where it failed for another reason.
std::string unknown_option(const CLI::App& app, const CLI::ParseError& error);

}  // namespace weft::cli
