#include "cli/style.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace weft::cli {

bool colours(int file) {
  const char *none = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  return ::isatty(file) && !(none && *none) && terminal && std::string_view(terminal) != "dumb";
}

}  // namespace weft::cli
