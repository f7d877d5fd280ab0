// weft serve in a build without cpp-httplib: reports that it is missing.
#include "cli/command.h"
#include "weft/base/check.h"

namespace weft::cli {

Run add_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Not in this build (no cpp-httplib)");
  command->allow_extras();
  return []() -> int {
    fail(ErrorCode::unsupported, "serve", "not in this build; install libcpp-httplib-dev and configure with -DWEFT_SERVE=ON");
  };
}

}  // namespace weft::cli
