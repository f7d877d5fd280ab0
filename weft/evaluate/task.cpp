#include "weft/evaluate/task.h"

#include <filesystem>
#include <set>

#include "weft/chat/text.h"
#include "weft/evaluate/forms.h"
#include "weft/io/checksum.h"
#include "weft/io/mapped_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr JsonLimits kLine{.bytes = size_t(64) << 20};

std::string_view text_of(const MappedFile& file) {
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  return text;
}

// Calls `visit` with each line that is not blank and its number.
template <class Visit>
void visit_lines(std::string_view rest, const Visit& visit) {
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") != line.npos) visit(line, number);
  }
}

std::string known_forms() {
  std::string text;
  for (const TaskForm& form : task_forms()) text += join(text.empty() ? "" : "; ", form.name, " {", form.fields, "}");
  return text;
}

const TaskForm& form_of(const JsonNode& line) {
  line.object();
  for (const TaskForm& form : task_forms())
    if (form.matches(line.value())) return form;
  std::string found;
  for (const auto& [key, value] : line.value().items()) found += (found.empty() ? "" : ", ") + shown(key);
  line.refuse("has the fields ", found.empty() ? "of no task: none" : found, ", which are of no known form: ", known_forms());
}

// "valid.jsonl" has its labels in "valid-labels.lst", one number on each line.
void add_labels(Task& task) {
  const fs::path path(task.file), labels = path.parent_path() / (path.stem().string() + "-labels.lst");
  std::error_code ignored;
  if (!fs::exists(labels, ignored))
    fail(ErrorCode::bad_file, task.items.front().where, "has no \"label\", and there is no ", labels.string(),
         " with the labels of the file");
  const MappedFile file(labels.string());
  size_t count = 0;
  visit_lines(text_of(file), [&](std::string_view line, int64_t number) {
    const std::string_view label = chat::stripped(line, {});
    if (label != "0" && label != "1")
      fail(ErrorCode::bad_file, join(labels.string(), ":", number), "is ", shown(label), ", expected 0 or 1");
    if (count < task.items.size()) task.items[count].answer = label == "1";
    ++count;
  });
  if (count != task.items.size())
    fail(ErrorCode::bad_file, labels.string(), "has ", count, " labels, but ", task.file, " has ", task.items.size(), " lines");
}

}  // namespace

Task read_task(const std::string& path) {
  const MappedFile file(path);
  Task task{.name = fs::path(path).stem().string(), .file = path, .form = "", .items = {}};
  const TaskForm* form = nullptr;
  bool elsewhere = false;
  visit_lines(text_of(file), [&](std::string_view text, int64_t number) {
    const std::string where = join(path, ":", number);
    const Json json = parse_json(where, text, kLine);
    const JsonNode line(where, json);
    const TaskForm& its = form_of(line);
    if (!form) form = &its;
    if (&its != form) line.refuse("has the form ", its.name, " {", its.fields, "}, but the lines before it have ", form->name);
    TaskItem& item = task.items.emplace_back(its.read(line));
    item.where = where;
    const std::string values = json.dump();
    item.identity = xxh64(std::as_bytes(std::span(values.data(), values.size())));
    if (item.answer == kAnswerElsewhere) elsewhere = true;
    if (elsewhere && item.answer != kAnswerElsewhere) line.refuse("has a \"label\", but lines before it have none");
  });
  if (!form) fail(ErrorCode::bad_file, path, "has no items in it");
  task.form = form->name;
  task.kind = form->kind;
  task.shots = form->shots;
  if (elsewhere) add_labels(task);
  return task;
}

std::vector<Task> read_tasks(const std::vector<std::string>& paths) {
  std::vector<Task> tasks;
  std::set<std::string> names;
  for (const std::string& path : paths) {
    tasks.push_back(read_task(path));
    if (!names.insert(tasks.back().name).second)
      fail(ErrorCode::invalid_argument, "eval", "two tasks are named '", tasks.back().name,
           "'; results are shown by the names of their files");
  }
  return tasks;
}

}  // namespace weft
