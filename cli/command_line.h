// The command line as a person would type it again.
#pragma once

#include <string>

namespace weft::cli {

std::string command_line(int argc, const char* const* argv);  // quoted for a shell where it has to be

}  // namespace weft::cli
