// Tasks: files of JSON lines with questions that a model is to answer (docs/evaluation.md). The fields of a line say what form it has:
// HellaSwag, ARC, MMLU and PIQA as they are published, and three plain forms of our own. All lines of a file have one form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// How an item is scored.
enum class TaskKind : uint8_t {
  choices,  // log-probabilities of given choices: accuracies
  target,   // a greedy continuation: exact match and F1
  text,     // log-probability of a text: bits per byte
};

struct TaskItem {
  std::string where;                 // "arc.jsonl:17"
  std::string prompt;                // text before the answer; of TaskKind::text the text itself
  std::string delimiter = " ";       // between prompt and answer
  std::vector<std::string> choices;  // without the delimiter
  int64_t answer = 0;                // index of the right choice
  std::vector<std::string> targets;  // texts that are right answers; the first one is shown in few-shot examples
  std::vector<std::string> stop;     // texts that end a continuation; empty: those of the options
  int64_t max_tokens = 0;            // of a continuation; 0: as in the options
  std::string group;                 // subject of an MMLU question
  std::string description;           // text before the few-shot examples
  uint64_t identity = 0;             // hash of the line's values: equal lines are the same question
  const std::string& answer_text() const { return choices.empty() ? targets.front() : choices[size_t(answer)]; }
};

struct Task {
  std::string name;  // of the file, without folder and extension
  std::string file;
  std::string form;  // "HellaSwag", "ARC", "MMLU", "PIQA", "choices", "target", "text"
  TaskKind kind = TaskKind::choices;
  // How few-shot examples are chosen: the first ones of the item's group, or drawn from all; `one_more`: one more is drawn and lines equal
  // to the item are left out, also from a file of examples (lm-eval does so for tasks without a test split).
  enum class Shots : uint8_t { drawn, one_more, first } shots = Shots::drawn;
  std::vector<TaskItem> items;
};

// Throws bad_file with file, line and value for a line that is not JSON, has no known form or another form than the lines before it, has no
// choices, or an answer that is none of them.
Task read_task(const std::string& path);

// The same for several files; two of one name are refused, for results are shown by it.
std::vector<Task> read_tasks(const std::vector<std::string>& paths);

}  // namespace weft
