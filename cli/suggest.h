// What to say of an option or a command that does not exist: the one that was meant, where that can be told.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weft::cli {

// Spells flags with dashes: --batch_size is --batch-size. What follows a lone "--" stays as it is.
void spell_with_dashes(int argc, char** argv);

// "no option --lerning-rate; did you mean --learning-rate?"
std::string unknown_option(const CLI::App& command, const std::string& given);
std::string unknown_command(const CLI::App& app, const std::string& given);

// The unknown option that made parsing fail, described; "" where it failed for another reason.
std::string unknown_option(const CLI::App& app, const CLI::ParseError& error);

}  // namespace weft::cli
