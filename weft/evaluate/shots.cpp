#include "weft/evaluate/shots.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/evaluate/python_random.h"

namespace weft {
namespace {

constexpr const char* kAfterExample = "\n\n";

class Examples {
 public:
  // `own`: they are items of the task itself, and an item is no example for itself.
  Examples(const Task& from, bool own, const ShotOptions& options)
      : from_(from),
        own_(own),
        leaves_out_(own || from.shots == Task::Shots::one_more),
        count_(options.count),
        random_(uint64_t(options.seed)) {}

  std::string before(const TaskItem& item) {
    std::string text;
    for (const TaskItem* each : from_.shots == Task::Shots::first ? first(item) : drawn(item))
      text += each->prompt + each->delimiter + each->answer_text() + kAfterExample;
    return text;
  }

 private:
  bool left_out(const TaskItem& example, const TaskItem& item) const { return leaves_out_ && example.identity == item.identity; }

  [[noreturn]] void too_few(const TaskItem& item, size_t there) const {
    fail(ErrorCode::bad_file, from_.file, "has ", there, " examples", item.group.empty() ? "" : join(" of ", item.group), " for ",
         item.where, own_ ? " beside itself" : "", ", expected ", count_);
  }

  std::vector<const TaskItem*> first(const TaskItem& item) const {
    std::vector<const TaskItem*> shots;
    for (const TaskItem& each : from_.items) {
      if (int64_t(shots.size()) == count_) break;
      if (each.group == item.group && !left_out(each, item)) shots.push_back(&each);
    }
    if (int64_t(shots.size()) < count_) too_few(item, shots.size());
    return shots;
  }

  // If lines equal to the item leave too few, the draw is repeated without them.
  std::vector<const TaskItem*> drawn(const TaskItem& item) {
    const auto all = int64_t(from_.items.size());
    std::vector<const TaskItem*> shots;
    for (int64_t i : random_.sample(all, std::min(all, count_ + leaves_out_)))
      if (const TaskItem& each = from_.items[size_t(i)]; int64_t(shots.size()) < count_ && !left_out(each, item)) shots.push_back(&each);
    if (int64_t(shots.size()) == count_) return shots;
    std::vector<const TaskItem*> others;
    for (const TaskItem& each : from_.items)
      if (!left_out(each, item)) others.push_back(&each);
    if (int64_t(others.size()) < count_) too_few(item, others.size());
    shots.clear();
    for (int64_t i : random_.sample(int64_t(others.size()), count_)) shots.push_back(others[size_t(i)]);
    return shots;
  }

  const Task& from_;
  bool own_, leaves_out_;
  int64_t count_;
  PythonRandom random_;
};

}  // namespace

std::vector<std::string> with_shots(const Task& task, const ShotOptions& options) {
  check(options.count >= 0, "eval", "--shots is ", options.count, ", expected 0 or more");
  check(options.seed >= 0, "eval", "--seed is ", options.seed, ", expected 0 or more");
  check(options.data.empty() || options.count > 0, "eval", "--shots-data needs --shots, the number of examples before each item");
  std::vector<std::string> texts;
  if (options.count == 0 || task.kind == TaskKind::text) {
    check(options.count == 0, "eval", task.file, " has texts to score, which take no few-shot examples; leave --shots out");
    for (const TaskItem& item : task.items) texts.push_back(item.description + item.prompt);
    return texts;
  }
  const bool own = options.data.empty();
  const Task other = own ? Task{} : read_task(options.data);
  if (!own && other.form != task.form)
    fail(ErrorCode::bad_file, options.data, "has examples of the form ", other.form, ", but ", task.file, " has ", task.form);
  Examples examples(own ? task : other, own, options);
  for (const TaskItem& item : task.items) texts.push_back(item.description + examples.before(item) + item.prompt);
  return texts;
}

void write_shots(Task& task, const ShotOptions& options) {
  std::vector<std::string> texts = with_shots(task, options);
  for (size_t i = 0; i < texts.size(); ++i) {
    task.items[i].prompt = std::move(texts[i]);
    task.items[i].description.clear();
  }
}

}  // namespace weft
