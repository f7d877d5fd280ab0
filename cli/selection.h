// Selection of the spec cases a command runs: --op, --dtype and --case.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "weft/spec/registry.h"

namespace weft::cli {

struct Selection {
  std::string op, dtype, name;  // empty: any

  void add_to(CLI::App& command);
  // Throws if the op has no spec or the dtype is unknown; the message lists the known ones and names `command`.
  void check_names(const char* command, const spec::Registry& registry) const;
  // `case_dtype` is empty if a case has none; `full` is "<op>.<variant>/<device>/<dtype>/<case>".
  bool takes(const std::string& case_op, const std::string& case_dtype, const std::string& full) const;
  [[noreturn]] void fail_empty(const char* command) const;
};

}  // namespace weft::cli
