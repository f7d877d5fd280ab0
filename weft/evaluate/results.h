// The results of a task: scores over its items, and each item's own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/evaluate/examples.h"
#include "weft/evaluate/statistics.h"
#include "weft/evaluate/task.h"

namespace weft {

struct TaskResult {
  std::string name, file, form;
  int64_t items = 0, truncated = 0;                   // truncated: items whose prompt lost its beginning
  std::vector<Score> scores;                          // the first one is the most usual
  std::vector<std::pair<std::string, Score>> groups;  // of the first score: by subject, if items have several
  const Score& main() const { return scores.front(); }
};

// Indices of the choices that four rules pick. The first of equal ones is picked.
struct Picked {
  int64_t plain = 0;          // the largest log-probability: acc
  int64_t by_characters = 0;  // ... divided by the characters of the choice: acc_norm, as in lm-eval
  int64_t by_bytes = 0;       // ... by its bytes in UTF-8: acc_bytes
  int64_t by_tokens = 0;      // ... by its tokens: acc_tokens
};
Picked picked(const TaskItem& item, const ItemResult& result);

// `results`: of the first items of the task.
TaskResult summarised(const Task& task, const std::vector<ItemResult>& results);

std::string task_result_json(const TaskResult& result);  // an object, on one line
std::string task_result_text(const TaskResult& result);  // a few lines for people

// One line of JSON for each item: its place, its numbers and what was picked.
std::string item_lines(const Task& task, const std::vector<ItemResult>& results);

// The results as bytes, to be sent to other ranks, and back. Throws if the bytes are not those of results.
std::string packed_results(const std::vector<ItemResult>& results);
std::vector<ItemResult> unpacked_results(const std::string& bytes);

}  // namespace weft
