// Colours of a terminal: only on a terminal, and not if NO_COLOR is set or TERM is dumb.
#pragma once

#include <string>

namespace weft::cli {

bool colours(int file);  // whether text written to this file descriptor may be coloured

struct Style {
  bool on = false;
  std::string dim(const std::string& text) const { return on ? "\x1b[2m" + text + "\x1b[0m" : text; }
  std::string red(const std::string& text) const { return on ? "\x1b[31m" + text + "\x1b[0m" : text; }
};

}  // namespace weft::cli
