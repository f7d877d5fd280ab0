// The forms of a task's lines: how they are recognised and read. Not installed.
#pragma once

#include <span>
#include <string>

#include "weft/evaluate/task.h"
#include "weft/io/json.h"

namespace weft {

struct TaskForm {
  const char* name;
  const char* fields;  // as an error lists them
  TaskKind kind;
  bool (*matches)(const Json& line);
  TaskItem (*read)(const JsonNode& line);
  Task::Shots shots = Task::Shots::drawn;
};

std::span<const TaskForm> task_forms();

// PIQA as published has its answers in another file; its items are read with the answer -1 where a line has none.
inline constexpr int64_t kAnswerElsewhere = -1;

// The cleaning of HellaSwag's texts that lm-eval does: brackets of WikiHow's markup are removed.
std::string without_markup(std::string_view text);

}  // namespace weft
