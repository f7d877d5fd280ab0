#include "cli/chat_input.h"

#include "weft/base/check.h"

namespace weft::cli {
namespace {

using Outcome = LineEditor::Outcome;

constexpr std::string_view kQuotes = "\"\"\"";
constexpr const char *kPrompt = "> ", *kMore = ". ";

std::string without_trailing_space(std::string text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.pop_back();
  return text;
}

}  // namespace

std::optional<ChatInput::Message> ChatInput::next() {
  for (std::string line;;) {
    const Outcome outcome = editor_.read(kPrompt, line);
    if (outcome == Outcome::end) return std::nullopt;
    if (outcome == Outcome::interrupted || line.find_first_not_of(" \t") == line.npos) continue;
    const bool block = line.starts_with(kQuotes);
    std::optional<std::string> text = block ? rest_of_block(line.substr(kQuotes.size())) : continued(line);
    if (text && text->find_first_not_of(" \t\n") != text->npos) return Message{*std::move(text), block};
  }
}

// nullopt: Ctrl-C.
std::optional<std::string> ChatInput::rest_of_block(std::string text) {
  for (std::string line = text;; text += "\n" + line) {
    if (const std::string last = without_trailing_space(line); last.ends_with(kQuotes)) {
      text = without_trailing_space(std::move(text));
      text.resize(text.size() - kQuotes.size());
      if (text.starts_with('\n')) text.erase(0, 1);
      if (text.ends_with('\n')) text.pop_back();
      return text;
    }
    const Outcome outcome = editor_.read(kMore, line);
    if (outcome == Outcome::interrupted) return std::nullopt;
    check(outcome == Outcome::line, "chat", "the input ends inside a block that began with \"\"\"");
  }
}

std::optional<std::string> ChatInput::continued(std::string text) {
  for (std::string line; text.ends_with('\\');) {
    const Outcome outcome = editor_.read(kMore, line);
    if (outcome == Outcome::interrupted) return std::nullopt;
    check(outcome == Outcome::line, "chat", "the input ends after a line that continues (\\)");
    text.back() = '\n';
    text += line;
  }
  return text;
}

}  // namespace weft::cli
