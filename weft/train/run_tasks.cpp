#include "weft/train/run_tasks.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/io/checksum.h"
#include "weft/train/phase.h"

namespace weft {

namespace {

// "a,,b" has three names, the second one empty.
std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

std::vector<Task> tasks_in(const std::string& list) {
  const std::vector<std::string> files = names_in(list);
  for (const std::string& file : files)
    check(!file.empty(), "train", "evaluate_tasks is '", list, "', expected names of files separated by commas");
  return read_tasks(files);
}

// The files that the examples of `tasks` tasks are taken from; an empty name: from the task itself.
std::vector<std::string> shot_files(const TrainConfig& config, size_t tasks) {
  std::vector<std::string> files = names_in(config.evaluate_tasks_shots_data);
  if (files.size() == 1) files.assign(tasks, files.front());
  check(files.size() == tasks, "train", "evaluate_tasks_shots_data is '", config.evaluate_tasks_shots_data, "' with ", files.size(),
        " names, expected one for all tasks, or one for each of the ", tasks, " of evaluate_tasks");
  return files;
}

}  // namespace

RunTasks::RunTasks(const TrainConfig& config, std::shared_ptr<const Vocabulary> vocabulary, const ModelConfig& model)
    : tokens_(std::move(vocabulary)), tasks_(tasks_in(config.evaluate_tasks)) {
  options_.limit = config.evaluate_tasks_items;
  options_.pass_tokens = config.pass_tokens;
  const std::vector<std::string> files = shot_files(config, tasks_.size());
  for (size_t i = 0; i < tasks_.size(); ++i) {
    Task& task = tasks_[i];
    shots_.push_back(task.kind == TaskKind::text ? 0 : config.evaluate_tasks_shots);
    if (shots_[i] > 0) write_shots(task, {.count = shots_[i], .data = files[i], .seed = config.evaluate_tasks_seed});
    Task longest = task;
    longest.items.assign(size_t(options_.batch), task.items[size_t(check_items(tokens_, task, options_, model.max_positions))]);
    longest_.push_back(std::move(longest));
  }
}

std::vector<ItemResult> RunTasks::results(const Model& model, const Task& task, const Agreement& ranks) const {
  Communicator& communicator = ranks.communicator();
  std::vector<ItemResult> own;
  ranks.all([&] { own = evaluate_items(model, tokens_, task, options_, communicator.rank(), communicator.size()); });
  if (communicator.size() == 1) return own;
  std::vector<std::vector<ItemResult>> parts;
  for (const std::string& part : communicator.all_gather(packed_results(own))) parts.push_back(unpacked_results(part));
  std::vector<ItemResult> all;
  for (int64_t i = 0; i < item_count(task, options_); ++i)
    all.push_back(std::move(parts[size_t(i % communicator.size())].at(size_t(i / communicator.size()))));
  return all;
}

TasksRecord RunTasks::evaluate(const Model& model, int64_t step, const Agreement& ranks) const {
  const Phase phase(model.device());
  TasksRecord record{step, {}};
  for (size_t i = 0; i < tasks_.size(); ++i) {
    TaskResult result = summarised(tasks_[i], results(model, tasks_[i], ranks));
    record.tasks.push_back({std::move(result.name), result.items, shots_[i], std::move(result.scores)});
  }
  return record;
}

void RunTasks::rehearse(const Model& model) const {
  const Phase phase(model.device());
  for (const Task& task : longest_) evaluate_items(model, tokens_, task, options_);
}

std::string RunTasks::identity() const {
  uint64_t hash = 0;
  for (const Task& task : tasks_)
    for (const TaskItem& item : task.items) {
      const std::string text = join(task.name, " ", item.identity, " ", item.answer, " ", item.prompt);
      hash = xxh64(std::as_bytes(std::span(text.data(), text.size())), hash);
    }
  return std::to_string(hash);
}

}  // namespace weft
