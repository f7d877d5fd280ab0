// Few-shot examples: the solved items before a question.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/evaluate/task.h"

namespace weft {

struct ShotOptions {
  int64_t count = 0;      // examples before each item
  std::string data = "";  // file that they are taken from; empty: the other items of the task
  int64_t seed = 1234;    // of the draws
};

// The text before the answer of each item: description, examples, prompt. Examples are drawn item by item in the order of the file, as
// lm-eval draws them with the same seed (PythonRandom); those of MMLU are the first ones of the item's subject. Throws if
// there are not enough examples, or if the file of examples has another kind of task.
std::vector<std::string> with_shots(const Task& task, const ShotOptions& options);

// Writes these texts into the prompts of the task, for a task that is evaluated often: it then takes ShotOptions without examples.
void write_shots(Task& task, const ShotOptions& options);

}  // namespace weft
