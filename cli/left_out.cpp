// Commands that need the ops' specs, in a build without them (WEFT_SPECS=OFF): each reports that it is missing.
#include "cli/command.h"
#include "weft/base/check.h"

namespace weft::cli {
namespace {

Run add_left_out(CLI::App& app, const char* name) {
  CLI::App* command = app.add_subcommand(name, "Not in this build (WEFT_SPECS=OFF)");
  command->allow_extras();
  return [name]() -> int {
    fail(ErrorCode::unsupported, name,
         "not in this build (WEFT_SPECS=OFF, as scripts/demo builds to save time); configure with -DWEFT_SPECS=ON (preset release)");
  };
}

}  // namespace

Run add_check(CLI::App& app) { return add_left_out(app, "check"); }
Run add_bench(CLI::App& app) { return add_left_out(app, "bench"); }
Run add_support(CLI::App& app) { return add_left_out(app, "support"); }

}  // namespace weft::cli
