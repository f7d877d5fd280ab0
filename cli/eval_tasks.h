// weft eval --task: tasks of JSON lines, scored.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "weft/evaluate/examples.h"

namespace weft::cli {

struct TaskFlags {
  std::vector<std::string> files;
  std::string results;
  TaskOptions options;

  void add_to(CLI::App& command);
  bool any() const { return !files.empty(); }
};

struct TaskModel {
  std::string folder, adapter, device, dtype;
  int64_t context = 0;  // the declared context (ModelFolder); 0: the config's
  int threads = 0;
  bool int8 = false;  // int8 weights
};

// Evaluates and prints; returns the exit code.
int evaluate_tasks(const TaskFlags& flags, const TaskModel& from, bool json);

}  // namespace weft::cli
