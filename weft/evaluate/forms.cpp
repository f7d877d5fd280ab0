#include "weft/evaluate/forms.h"

#include <algorithm>
#include <charconv>

#include "weft/chat/text.h"

namespace weft {
namespace {

constexpr size_t kMostChoices = 1000;

bool has(const Json& line, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (!line.contains(key)) return false;
  return true;
}

std::vector<std::string> texts_of(const JsonNode& list) {
  std::vector<std::string> texts;
  for (const JsonNode& element : list.list().elements()) texts.push_back(element.text());
  return texts;
}

void check_choices(const JsonNode& where, const std::vector<std::string>& choices) {
  if (choices.empty()) where.refuse("is empty, expected at least one choice");
  if (choices.size() > kMostChoices) where.refuse("has ", choices.size(), " choices, expected at most ", kMostChoices);
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i].empty()) where.refuse("has an empty text as choice ", i);
}

// An index as a number, or as a text of digits ("3"), as some releases have it.
int64_t index_of(const JsonNode& node, size_t count) {
  int64_t index = -1;
  if (node.value().is_string()) {
    const std::string text = node.text();
    if (text.empty()) node.refuse("is empty: the line has no answer, as in test splits without labels");
    const auto end = std::from_chars(text.data(), text.data() + text.size(), index);
    if (end.ec != std::errc() || end.ptr != text.data() + text.size()) index = -1;
  } else if (node.value().is_number_integer()) {
    index = node.value().get<int64_t>();
  }
  if (index < 0 || index >= int64_t(count))
    node.refuse("is ", shown_value(node.value()), ", expected the index of one of the ", count, " choices, 0 to ", int64_t(count) - 1);
  return index;
}

// MMLU lists its choices after the question; the model continues with the letter of one.
TaskItem mmlu(const JsonNode& line) {
  TaskItem item;
  const std::vector<std::string> texts = texts_of(line.at("choices"));
  check_choices(line.at("choices"), texts);
  if (texts.size() > 26) line.at("choices").refuse("has ", texts.size(), " choices, expected at most 26: they are named A to Z");
  item.prompt = chat::stripped(line.at("question").text(), {});
  for (size_t i = 0; i < texts.size(); ++i) {
    item.choices.emplace_back(1, char('A' + i));
    item.prompt += "\n" + item.choices.back() + ". " + texts[i];
  }
  item.prompt += "\nAnswer:";
  const JsonNode answer = line.at("answer");
  if (const Json& value = answer.value(); value.is_string() && value.get_ref<const std::string&>().size() == 1 &&
                                          value.get_ref<const std::string&>()[0] >= 'A' && value.get_ref<const std::string&>()[0] <= 'Z') {
    item.answer = value.get_ref<const std::string&>()[0] - 'A';
    if (item.answer >= int64_t(texts.size())) answer.refuse("is ", shown_value(value), ", but there are ", texts.size(), " choices");
  } else {
    item.answer = index_of(answer, texts.size());
  }
  item.group = line.text_or("subject", "");
  if (!item.group.empty()) {
    std::string subject = item.group;
    std::replace(subject.begin(), subject.end(), '_', ' ');
    item.description = "The following are multiple choice questions (with answers) about " + subject + ".\n\n";
  }
  return item;
}

TaskItem hellaswag(const JsonNode& line) {
  TaskItem item;
  const std::string context = line.at("ctx_a").text() + " " + chat::capitalized(line.text_or("ctx_b", ""));
  item.prompt = without_markup(line.at("activity_label").text() + ": " + context);
  for (const std::string& ending : texts_of(line.at("endings"))) item.choices.push_back(without_markup(ending));
  check_choices(line.at("endings"), item.choices);
  item.answer = index_of(line.at("label"), item.choices.size());
  return item;
}

// ARC has its choices as objects in the files of AI2, {"stem", "choices": [{"text", "label"}]}, and as two lists on the Hugging Face hub.
TaskItem arc(const JsonNode& line) {
  TaskItem item;
  std::vector<std::string> labels;
  const JsonNode question = line.at("question");
  const bool hub = question.value().is_string();
  const JsonNode choices = (hub ? line : question).at("choices");
  if (hub) {
    item.choices = texts_of(choices.object().at("text"));
    labels = texts_of(choices.at("label"));
    if (labels.size() != item.choices.size())
      choices.refuse("has ", item.choices.size(), " texts and ", labels.size(), " labels, expected as many");
  } else {
    for (const JsonNode& choice : choices.list().elements()) {
      item.choices.push_back(choice.object().at("text").text());
      labels.push_back(choice.at("label").text());
    }
  }
  check_choices(choices, item.choices);
  item.prompt = "Question: " + (hub ? question : question.at("stem")).text() + "\nAnswer:";
  const JsonNode key = line.at("answerKey");
  const auto found = std::find(labels.begin(), labels.end(), key.text());
  if (found == labels.end()) key.refuse("is ", shown_value(key.value()), ", which is no label of its ", labels.size(), " choices");
  item.answer = found - labels.begin();
  return item;
}

TaskItem piqa(const JsonNode& line) {
  TaskItem item;
  item.prompt = "Question: " + line.at("goal").text() + "\nAnswer:";
  item.choices = {line.at("sol1").text(), line.at("sol2").text()};
  check_choices(line, item.choices);
  const auto label = line.find("label");
  item.answer = label ? index_of(*label, 2) : kAnswerElsewhere;
  return item;
}

std::vector<std::string> text_or_texts(const JsonNode& node) {
  return node.value().is_string() ? std::vector<std::string>{node.text()} : texts_of(node);
}

TaskItem plain_choices(const JsonNode& line) {
  TaskItem item;
  item.prompt = line.at("prompt").text();
  item.choices = texts_of(line.at("choices"));
  check_choices(line.at("choices"), item.choices);
  item.answer = index_of(line.at("answer"), item.choices.size());
  item.delimiter = line.text_or("delimiter", " ");
  return item;
}

TaskItem plain_target(const JsonNode& line) {
  TaskItem item;
  item.prompt = line.at("prompt").text();
  item.targets = text_or_texts(line.at("target"));
  if (item.targets.empty()) line.at("target").refuse("is empty, expected a text or a list of texts");
  item.delimiter = line.text_or("delimiter", " ");
  if (const auto stop = line.find("stop")) item.stop = text_or_texts(*stop);
  for (const std::string& text : item.stop)
    if (text.empty()) line.at("stop").refuse("has an empty text");
  item.max_tokens = line.integer_or("max_tokens", 0);
  return item;
}

TaskItem plain_text(const JsonNode& line) {
  TaskItem item;
  item.prompt = line.at("text").text();
  if (item.prompt.empty()) line.at("text").refuse("is empty");
  return item;
}

constexpr TaskForm kForms[] = {
    {"HellaSwag", "activity_label, ctx_a, ctx_b, endings, label", TaskKind::choices,
     [](const Json& line) { return has(line, {"ctx_a", "endings"}); }, hellaswag, Task::Shots::one_more},
    {"ARC", "question, choices, answerKey", TaskKind::choices, [](const Json& line) { return has(line, {"question", "answerKey"}); }, arc},
    {"PIQA", "goal, sol1, sol2, label", TaskKind::choices, [](const Json& line) { return has(line, {"goal", "sol1", "sol2"}); }, piqa,
     Task::Shots::one_more},
    {"MMLU", "question, choices, answer", TaskKind::choices, [](const Json& line) { return has(line, {"question", "choices", "answer"}); },
     mmlu, Task::Shots::first},
    {"choices", "prompt, choices, answer", TaskKind::choices, [](const Json& line) { return has(line, {"prompt", "choices"}); },
     plain_choices},
    {"target", "prompt, target", TaskKind::target, [](const Json& line) { return has(line, {"prompt", "target"}); }, plain_target},
    {"text", "text", TaskKind::text, [](const Json& line) { return has(line, {"text"}); }, plain_text},
};

void replace_all(std::string& text, std::string_view old, std::string_view fresh) {
  for (size_t at = text.find(old); at != text.npos; at = text.find(old, at + fresh.size())) text.replace(at, old.size(), fresh);
}

}  // namespace

std::span<const TaskForm> task_forms() { return kForms; }

std::string without_markup(std::string_view raw) {
  std::string text(chat::stripped(raw, {}));
  replace_all(text, " [title]", ". ");
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const size_t close = text[at] == '[' ? text.find_first_of("]\n", at) : text.npos;
    if (close != text.npos && text[close] == ']') {
      at = close + 1;
    } else {
      kept += text[at++];
    }
  }
  replace_all(kept, "  ", " ");
  return kept;
}

}  // namespace weft
