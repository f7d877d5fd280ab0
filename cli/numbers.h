// Strict options of numbers. The parser alone would accept -1 for the largest unsigned value, clamp integers that overflow, read 010 as
// octal 8, and describe a word in the place of a number without what was expected.
#pragma once

#include <CLI/CLI.hpp>

namespace weft::cli {

// Adds the check to every option of `app` and of its commands that takes a number.
void check_numbers(CLI::App& app);

}  // namespace weft::cli
