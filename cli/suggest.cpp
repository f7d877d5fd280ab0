#include "cli/suggest.h"

#include <algorithm>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/spelling.h"
#include "weft/train/config.h"

namespace weft::cli {
namespace {

// Flags of other tools that correspond to a different setting here.
constexpr std::pair<const char*, const char*> kElsewhere[] = {
    {"--epochs", "use --steps: a step takes batch x accumulate sequences, and a run prints the number of sequences when it starts"},
    {"--num-train-epochs",
     "use --steps: a step takes batch x accumulate sequences, and a run prints the number of sequences when it starts"},
    {"--gpu", "use --device cuda"},
    {"--bf16", "use --dtype bf16"},
    {"--fp16", "use --dtype bf16; training in f16 is not supported"},
};

std::string name_of(const std::string& given) { return given.substr(0, given.find('=')); }

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
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

std::string unknown_option(const CLI::App& command, const std::string& given) {
  const CLI::App* above = command.get_parent();
  const std::string words = join(above && above->get_parent() ? above->get_name() + " " : "", command.get_name());
  const std::string name = name_of(given);
  for (const auto& [elsewhere, advice] : kElsewhere)
    if (name == elsewhere) return join("unknown option ", name, "; ", advice);
  const std::string near = nearest_word(name, options_of(command));
  return join("unknown option ", name, near.empty() ? join("; see weft ", words, " --help") : join("; did you mean ", near, "?"));
}

std::string unknown_option(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() != int(CLI::ExitCodes::ExtrasError)) return "";
  for (const CLI::App* command : app.get_subcommands())
    for (const std::string& given : command->remaining(true)) {
      if (!given.starts_with("-") || given.size() == 1) continue;
      while (!command->get_subcommands().empty()) command = command->get_subcommands().front();  // "tokenizer train"
      return unknown_option(*command, given);
    }
  return "";
}

std::string unknown_command(const CLI::App& app, const std::string& given) {
  std::vector<std::string> words;
  for (const CLI::App* command : app.get_subcommands({})) words.push_back(command->get_name());
  const std::string near = nearest_word(given, words);
  return join("unknown command or option '", given, "'; ", near.empty() ? "see weft --help" : join("did you mean ", near, "?"));
}

}  // namespace weft::cli
