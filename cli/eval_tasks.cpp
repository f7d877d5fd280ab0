#include "cli/eval_tasks.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/waiting.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/evaluate/results.h"
#include "weft/io/atomic_file.h"

namespace weft::cli {

void TaskFlags::add_to(CLI::App& command) {
  const char* group = "tasks";
  CLI::Option* task =
      command
          .add_option("--task", files,
                      "JSONL file with a task, may be repeated: HellaSwag, ARC, MMLU or PIQA as published, or {\"prompt\", \"choices\", "
                      "\"answer\"}, {\"prompt\", \"target\"}, {\"text\"} (docs/evaluation.md)")
          ->take_all()
          ->expected(1)
          ->allow_extra_args(false)
          ->group(group);
  command.add_option("--shots", options.shots.count, "Few-shot examples before each item")
      ->needs(task)
      ->group(group)
      ->capture_default_str();
  command.add_option("--shots-data", options.shots.data, "JSONL file that they are taken from (default: the task's other items)")
      ->needs(task)
      ->group(group);
  command.add_option("--seed", options.shots.seed, "Seed of the draw of few-shot examples; lm-eval's default")
      ->needs(task)
      ->group(group)
      ->capture_default_str();
  command.add_option("--limit", options.limit, "Items of each task, from the first (0: all)")
      ->needs(task)
      ->group(group)
      ->capture_default_str();
  command
      .add_option("--stop", options.stop,
                  "Text that ends a continuation, may be repeated (default: an empty line; \"stop\" of an item is used instead)")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false)
      ->needs(task)
      ->group(group);
  command.add_option("--max-tokens", options.max_tokens, "Tokens of a continuation at most (0: 256, but at most half the context)")
      ->needs(task)
      ->group(group)
      ->capture_default_str();
  command.add_option("--batch", options.batch, "Sequences of one pass; changes no result")
      ->needs(task)
      ->group(group)
      ->capture_default_str();
  command.add_option("--results", results, "Write each item's result to this file, a JSON object per line")->needs(task)->group(group);
}

int evaluate_tasks(const TaskFlags& flags, const TaskModel& from, bool json) {
  for (const std::string& stop : flags.options.stop) check(!stop.empty(), "eval", "--stop is empty");
  check(flags.options.max_tokens >= 0, "eval", "--max-tokens is ", flags.options.max_tokens, ", expected 0 or more");
  const std::vector<Task> tasks = read_tasks(flags.files);
  const auto device = open_device(from.device.empty() ? "cpu" : from.device, {.threads = from.threads});
  const ModelFolder folder(from.folder, from.adapter, from.context);
  folder.config();  // first: its error says what a folder without a model is
  const TaskTokens tokens(folder);
  Waiting waits(*device);
  for (const Task& task : tasks) check_items(tokens, task, flags.options, folder.config().max_positions);
  const auto model =
      folder.load(*device, {.dtype = from.dtype.empty() ? std::optional<DType>() : dtype_from_name(from.dtype), .int8 = from.int8});
  std::string lines, list;
  for (const Task& task : tasks) {
    const std::vector<ItemResult> results = evaluate_items(*model, tokens, task, flags.options);
    const TaskResult result = summarised(task, results);
    if (!flags.results.empty()) lines += item_lines(task, results);
    waits.progress.hide();
    if (json)
      list += join(list.empty() ? "" : ",\n", "  ", task_result_json(result));
    else
      std::printf("%s", task_result_text(result).c_str());
    std::fflush(stdout);
  }
  if (json)
    std::printf("{\"model\": %s, \"shots\": %ld, \"seed\": %ld, \"tasks\": [\n%s\n]}\n", nlohmann::json(from.folder).dump().c_str(),
                long(flags.options.shots.count), long(flags.options.shots.seed), list.c_str());
  if (!flags.results.empty()) {
    AtomicFile file(flags.results);
    file.write(lines);
    file.commit();
  }
  return kOk;
}

}  // namespace weft::cli
