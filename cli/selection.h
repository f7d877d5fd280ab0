// Which cases of the specs a command runs: --op, --dtype and --case.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "weft/spec/registry.h"

namespace weft::cli {

struct Selection {
  std::string op, dtype, name;  // empty: any

  void add_to(CLI::App& command);
  // An op that has no spec or a dtype that does not exist is an error, told by `command` with those there are.
  void check_names(const char* command, const spec::Registry& registry) const;
  // `case_dtype` is empty where a case has none; `full` is "<op>.<variant>/<device>/<dtype>/<case>".
  bool takes(const std::string& case_op, const std::string& case_dtype, const std::string& full) const;
  [[noreturn]] void fail_empty(const char* command) const;
};

}  // namespace weft::cli
