#include "cli/suggest.h"

#include <algorithm>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/spelling.h"
#include "weft/train/config.h"

namespace weft::cli {
namespace {

// Flags of other tools, and the option that has their meaning here in the commands that have it.
struct Elsewhere {
  const char *flag, *option, *value;
};
constexpr Elsewhere kElsewhere[] = {
    {"--gpu", "--device", "cuda"}, {"--cuda", "--device", "cuda"}, {"--bf16", "--dtype", "bf16"}, {"--fp16", "--dtype", ""}};

std::string name_of(const std::string& given) { return given.substr(0, given.find('=')); }

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// "; see weft tokenizer train --help"
std::string see_help(const CLI::App& command) {
  std::string words;
  for (const CLI::App* each = &command; each; each = each->get_parent()) words = each->get_name() + " " + words;
  return join("; see ", words, "--help");
}

std::string unknown_option(const CLI::App& command, const std::string& given) {
  const std::string name = name_of(given);
  for (const Elsewhere& e : kElsewhere)
    if (name == e.flag && command.get_option_no_throw(e.option))
      return join("unknown option ", name, "; use ", e.option, *e.value ? " " : "", e.value);
  const std::string near = nearest_word(name, options_of(command));
  return join("unknown option ", name, near.empty() ? see_help(command) : join("; did you mean ", near, "?"));
}

// Maps an alias to the flag of its setting; returns other flags unchanged.
std::string documented(const std::string& flag) {
  for (const Setting& setting : settings())
    for (const std::string& alias : words_in(setting.aliases))
      if (flag == "--" + alias) return flag_of(setting.key);
  return flag;
}

}  // namespace

std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::vector<std::string> with_known_names(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  const bool training = !arguments.empty() && arguments[0] == "train";
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    if (!argument.starts_with("--")) continue;
    const size_t end = std::min(argument.find('='), argument.size());
    const std::string flag = flag_of(argument.substr(2, end - 2));
    argument = (training ? documented(flag) : flag) + argument.substr(end);
  }
  return arguments;
}

std::string wrong_arguments(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();  // "tokenizer train"
  if (error.get_exit_code() == int(CLI::ExitCodes::ExtrasError))
    for (const CLI::App* each : app.get_subcommands())
      for (const std::string& given : each->remaining(true))
        if (given.starts_with("-") && given.size() > 1) return unknown_option(*command, given);
  return error.what() + see_help(*command);
}

std::string unknown_command(const CLI::App& app, const std::string& given) {
  std::vector<std::string> words;
  for (const CLI::App* command : app.get_subcommands({})) words.push_back(command->get_name());
  const std::string near = nearest_word(given, words);
  return join("unknown command or option '", given, "'; ", near.empty() ? "see weft --help" : join("did you mean ", near, "?"));
}

}  // namespace weft::cli
