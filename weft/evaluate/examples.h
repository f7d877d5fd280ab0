// The items of a task, answered by a model.
//
//   const Task task = read_task("arc.jsonl");
//   const TaskTokens tokens(folder);
//   const auto results = evaluate_items(*model, tokens, task, {});      // one for each item
//   const TaskResult result = summarised(task, results);                // weft/evaluate/results.h
//
// Log-probabilities are those of score() and texts those of Generator, whose bits depend neither on the batch nor on the order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/evaluate/shots.h"
#include "weft/evaluate/task.h"
#include "weft/evaluate/task_tokens.h"
#include "weft/models/model.h"

namespace weft {

struct TaskOptions {
  ShotOptions shots = {};
  int64_t limit = 0;                         // items evaluated, from the first; 0: all
  std::vector<std::string> stop = {"\n\n"};  // texts that end a continuation, unless the item has its own
  int64_t max_tokens = 0;                    // of a continuation; 0: 256, but at most half the context
  int64_t context = 0;                       // longest sequence in tokens; 0: the model's
  int64_t pass_tokens = 8192;                // tokens of one pass at most; changes no result
  int64_t batch = 16;                        // sequences of one pass; changes no result
};

struct ChoiceScore {
  double log_probability = 0;  // sum over the tokens of the choice
  int64_t tokens = 0;
};

// The result of one item. What its kind does not have is empty or 0.
struct ItemResult {
  std::vector<ChoiceScore> choices;
  std::string generated;       // TaskKind::target: the continuation, up to a stop text
  double log_probability = 0;  // TaskKind::text: of all its tokens
  int64_t tokens = 0;          // of the text or of the continuation
  bool truncated = false;      // the prompt was longer than the context: its beginning was left out
};

// Checks that every item can be evaluated with this tokenizer and context, without a model: an error comes before the work. Returns the
// index of the item with the most tokens.
int64_t check_items(const TaskTokens& tokens, const Task& task, const TaskOptions& options, int64_t context);

// The results of items first, first + stride, ... of the task. Throws, naming the item, for one that cannot be tokenised or does not fit,
// and for a log-probability that is not finite.
std::vector<ItemResult> evaluate_items(const Model& model, const TaskTokens& tokens, const Task& task, const TaskOptions& options,
                                       int64_t first = 0, int64_t stride = 1);

int64_t item_count(const Task& task, const TaskOptions& options);  // evaluated ones

}  // namespace weft
