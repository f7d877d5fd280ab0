// The command line as it can be typed again in a shell.
#pragma once

#include <string>

namespace weft::cli {

std::string command_line(int argc, const char* const* argv);  // quoted where necessary

}  // namespace weft::cli
