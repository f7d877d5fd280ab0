// The flag --weights of the commands that run a model: how the weights of its linear layers are stored.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weft::cli {

struct WeightsFlag {
  std::string name;

  void add_to(CLI::App& command) {
    command.add_option("--weights", name, "int8: linear layers in int8 with a scale per row and 32 inputs (default: in --dtype)")
        ->check(CLI::IsMember({"int8"}));
  }
  bool int8() const { return name == "int8"; }
};

}  // namespace weft::cli
