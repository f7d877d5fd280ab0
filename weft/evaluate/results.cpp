#include "weft/evaluate/results.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "weft/base/check.h"
#include "weft/chat/text.h"
#include "weft/evaluate/answers.h"

namespace weft {
namespace {

using Ordered = nlohmann::ordered_json;
using Values = std::vector<double>;

std::string dumped(const Ordered& json) { return json.dump(-1, ' ', false, Ordered::error_handler_t::replace); }

// The first index of the largest log-probability over `length`.
template <class Length>
int64_t largest(const std::vector<ChoiceScore>& choices, const Length& length) {
  int64_t best = 0;
  for (size_t i = 1; i < choices.size(); ++i)
    if (choices[i].log_probability / length(i) > choices[size_t(best)].log_probability / length(size_t(best))) best = int64_t(i);
  return best;
}

void add_accuracies(const Task& task, const std::vector<ItemResult>& results, TaskResult& out) {
  Values plain, characters, bytes, tokens;
  std::map<std::string, Values> groups;
  for (size_t i = 0; i < results.size(); ++i) {
    const Picked by = picked(task.items[i], results[i]);
    const auto add = [&](Values& values, int64_t index) { values.push_back(index == task.items[i].answer); };
    add(plain, by.plain);
    add(characters, by.by_characters);
    add(bytes, by.by_bytes);
    add(tokens, by.by_tokens);
    if (!task.items[i].group.empty()) add(groups[task.items[i].group], by.plain);
  }
  out.scores = {share_score("acc", plain), share_score("acc_norm", characters), share_score("acc_bytes", bytes),
                share_score("acc_tokens", tokens)};
  if (groups.size() > 1)
    for (const auto& [group, values] : groups) out.groups.emplace_back(group, share_score("acc", values));
}

void add_matches(const Task& task, const std::vector<ItemResult>& results, TaskResult& out) {
  Values exact, f1;
  for (size_t i = 0; i < results.size(); ++i) {
    exact.push_back(exact_match(results[i].generated, task.items[i].targets));
    f1.push_back(word_f1(results[i].generated, task.items[i].targets));
  }
  out.scores = {share_score("exact_match", exact), mean_score("f1", f1)};
}

// Words as lm-eval counts them: pieces between runs of white space, empty ones at the ends included.
double words_in_text(std::string_view text) {
  double words = 1;
  bool before = false;
  for (char32_t c : chat::decoded(text)) {
    const bool space = chat::is_space(c);
    words += space && !before;
    before = space;
  }
  return words;
}

void add_bits(const Task& task, const std::vector<ItemResult>& results, TaskResult& out) {
  Values bits, bytes, words;
  for (size_t i = 0; i < results.size(); ++i) {
    bits.push_back(-results[i].log_probability / std::log(2.0));
    bytes.push_back(double(task.items[i].prompt.size()));
    words.push_back(words_in_text(task.items[i].prompt));
  }
  const Score per_byte = ratio_score("bits_per_byte", bits, bytes), per_word = ratio_score("bits_per_word", bits, words);
  out.scores = {per_byte, power_score("byte_perplexity", 2, per_byte), power_score("word_perplexity", 2, per_word)};
}

Ordered number(double value) { return std::isfinite(value) ? Ordered(value) : Ordered(nullptr); }

Ordered score_json(const Score& score) {
  return {
      {"value", number(score.value)}, {"stderr", number(score.standard_error)}, {"low", number(score.low)}, {"high", number(score.high)}};
}

Ordered item_json(const TaskItem& item, const ItemResult& result, TaskKind kind) {
  Ordered line = {{"where", item.where}};
  if (kind == TaskKind::choices) {
    const Picked by = picked(item, result);
    Ordered values = Ordered::array(), tokens = Ordered::array();
    for (const ChoiceScore& choice : result.choices) values.push_back(choice.log_probability), tokens.push_back(choice.tokens);
    line.update({{"choices", item.choices}, {"answer", item.answer}, {"log_probabilities", values}, {"tokens", tokens}});
    line.update({{"acc", int(by.plain == item.answer)}, {"acc_norm", int(by.by_characters == item.answer)}});
    line.update({{"acc_bytes", int(by.by_bytes == item.answer)}, {"acc_tokens", int(by.by_tokens == item.answer)}});
    line["picked"] = {{"acc", by.plain}, {"acc_norm", by.by_characters}, {"acc_bytes", by.by_bytes}, {"acc_tokens", by.by_tokens}};
  } else if (kind == TaskKind::target) {
    line.update({{"targets", item.targets}, {"generated", result.generated}, {"tokens", result.tokens}});
    line.update({{"exact_match", exact_match(result.generated, item.targets)}, {"f1", word_f1(result.generated, item.targets)}});
  } else {
    line.update({{"log_probability", result.log_probability}, {"tokens", result.tokens}, {"bytes", item.prompt.size()}});
    line["bits_per_byte"] = -result.log_probability / std::log(2.0) / double(item.prompt.size());
  }
  if (result.truncated) line["truncated"] = true;
  return line;
}

}  // namespace

Picked picked(const TaskItem& item, const ItemResult& result) {
  const auto& all = result.choices;
  return {largest(all, [](size_t) { return 1.0; }), largest(all, [&](size_t i) { return double(chat::code_points(item.choices[i])); }),
          largest(all, [&](size_t i) { return double(item.choices[i].size()); }),
          largest(all, [&](size_t i) { return double(all[i].tokens); })};
}

TaskResult summarised(const Task& task, const std::vector<ItemResult>& results) {
  TaskResult out{.name = task.name, .file = task.file, .form = task.form, .items = int64_t(results.size()), .scores = {}, .groups = {}};
  for (const ItemResult& result : results) out.truncated += result.truncated;
  switch (task.kind) {
    case TaskKind::choices: add_accuracies(task, results, out); break;
    case TaskKind::target: add_matches(task, results, out); break;
    case TaskKind::text: add_bits(task, results, out); break;
  }
  return out;
}

std::string task_result_json(const TaskResult& result) {
  Ordered json = {
      {"task", result.name}, {"file", result.file}, {"form", result.form}, {"items", result.items}, {"truncated", result.truncated}};
  for (const Score& score : result.scores) json["scores"][score.metric] = score_json(score);
  for (const auto& [group, score] : result.groups) json["groups"][group] = score_json(score);
  return dumped(json);
}

std::string task_result_text(const TaskResult& result) {
  std::string text = join(result.name, " (", result.form, "): ", result.items, result.items == 1 ? " item" : " items");
  if (result.truncated > 0) text += join(", ", result.truncated, " with a prompt that lost its beginning to the context");
  text += "\n";
  const auto add = [&](const std::string& name, const Score& score) {
    char line[200];
    const bool known = std::isfinite(score.standard_error);
    std::snprintf(line, sizeof line, "  %-16s %8.4f", name.c_str(), score.value);
    text += line;
    if (known) std::snprintf(line, sizeof line, "  +- %.4f  95 %% between %.4f and %.4f", score.standard_error, score.low, score.high);
    text += known ? join(line, "\n") : "\n";
  };
  for (const Score& score : result.scores) add(score.metric, score);
  for (const auto& [group, score] : result.groups) add("  " + group, score);
  return text;
}

std::string item_lines(const Task& task, const std::vector<ItemResult>& results) {
  std::string text;
  for (size_t i = 0; i < results.size(); ++i) {
    Ordered line = {{"task", task.name}, {"item", i}};
    line.update(item_json(task.items[i], results[i], task.kind));
    text += dumped(line) + "\n";
  }
  return text;
}

// JSON has the shortest decimal digits that read back as the same double.
std::string packed_results(const std::vector<ItemResult>& results) {
  Ordered all = Ordered::array();
  for (const ItemResult& r : results) {
    Ordered choices = Ordered::array();
    for (const ChoiceScore& c : r.choices) choices.push_back({c.log_probability, c.tokens});
    all.push_back({choices, r.generated, r.log_probability, r.tokens, r.truncated});
  }
  return dumped(all);
}

std::vector<ItemResult> unpacked_results(const std::string& bytes) {
  std::vector<ItemResult> results;
  try {
    for (const Ordered& r : Ordered::parse(bytes)) {
      ItemResult& result = results.emplace_back();
      for (const Ordered& c : r.at(0)) result.choices.push_back({c.at(0).get<double>(), c.at(1).get<int64_t>()});
      result.generated = r.at(1).get<std::string>();
      result.log_probability = r.at(2).get<double>();
      result.tokens = r.at(3).get<int64_t>();
      result.truncated = r.at(4).get<bool>();
    }
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::bad_file, "eval", "results of another rank cannot be read: ", error.what());
  }
  return results;
}

}  // namespace weft
