#include "weft/data/json_documents.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string found(char c) { return c > ' ' && c <= '~' ? join("'", c, "'") : join("byte ", int(uint8_t(c))); }

size_t after_space(std::string_view text, size_t at) { return std::min(text.find_first_not_of(kSpace, at), text.size()); }

// The end of the string that begins at `at`; the size of the text if the string is not closed.
size_t string_end(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return text.size();
}

// The end of the value that begins at `at`, found by quotes and brackets alone; the parser reports errors inside it.
size_t value_end(std::string_view text, size_t at) {
  int64_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = string_end(text, at);
    } else if (c == '{' || c == '[') {
      ++depth, ++at;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;  // closes the enclosing list or object
      --depth, ++at;
    } else if (depth == 0) {
      return std::min(text.find_first_of(",]}\" \t\r\n", at), text.size());
    } else {
      ++at;
    }
    if (depth == 0) return at;
  }
  return at;
}

// Visits one document. `step` names what the parser's position counts: "column" or "byte".
void visit_value(std::string_view value, const std::string& where, const char* step, bool string_allowed, const JsonVisitor& visitor) {
  const auto json = [&] {
    try {
      return nlohmann::json::parse(value);
    } catch (const nlohmann::json::parse_error& error) {
      fail(ErrorCode::bad_file, where, "is not valid JSON, at ", step, " ", error.byte);
    } catch (const nlohmann::json::exception& error) {  // a number out of range
      fail(ErrorCode::bad_file, where, "is not valid JSON: ", error.what());
    }
  }();
  if (json.is_string() && string_allowed) return visitor.text(json.get_ref<const std::string&>(), where);
  if (!json.is_object())
    fail(ErrorCode::bad_file, where, "is not a JSON object but ", json.type_name(), ", expected an object with a field \"text\"",
         string_allowed ? " or a string" : "");
  const auto text = json.find("text");
  if (text == json.end()) {
    const bool conversation = json.contains("messages");
    if (conversation && visitor.conversation) return visitor.conversation(value, where);
    fail(ErrorCode::bad_file, where, "has no field \"text\"",
         conversation ? "; conversations (\"messages\") are read by weft train, and by weft generate --chat" : "");
  }
  if (!text->is_string()) fail(ErrorCode::bad_file, where, "its field \"text\" is not a string but ", text->type_name());
  visitor.text(text->get_ref<const std::string&>(), where);
}

void visit_list(std::string_view text, const std::string& path, const JsonVisitor& visitor) {
  size_t at = after_space(text, after_space(text, 0) + 1);
  for (int64_t index = 0; at < text.size() && (text[at] != ']' || index > 0); ++index) {
    const std::string where = join(path, "[", index, "]");
    const size_t end = value_end(text, at);
    visit_value(text.substr(at, end - at), where, "byte", true, visitor);
    at = after_space(text, end);
    if (at == text.size() || text[at] == ']') break;
    if (text[at] != ',')
      fail(ErrorCode::bad_file, path, "is not valid JSON: element ", index, " of its list is followed by ", found(text[at]));
    at = after_space(text, at + 1);
  }
  if (at == text.size()) fail(ErrorCode::bad_file, path, "is not valid JSON: its list is not closed");
  if (at = after_space(text, at + 1); at != text.size())
    fail(ErrorCode::bad_file, path, "is not valid JSON: its list is followed by ", found(text[at]));
}

// Objects are named by the lines that they begin in.
void visit_objects(std::string_view text, const std::string& path, const JsonVisitor& visitor) {
  int64_t line = 1;
  const auto pass = [&](size_t from, size_t to) {
    line += std::count(text.begin() + ptrdiff_t(from), text.begin() + ptrdiff_t(to), '\n');
    return to;
  };
  for (size_t at = pass(0, after_space(text, 0)); at < text.size();) {
    const std::string where = join(path, ":", line);
    if (text[at] != '{')
      fail(ErrorCode::bad_file, where, "has ", found(text[at]), ", expected a list of texts, or objects with a field \"text\"");
    const size_t end = value_end(text, at);
    visit_value(text.substr(at, end - at), where, "byte", false, visitor);
    at = pass(at, after_space(text, end));
  }
}

bool holds_list(std::string_view text) {
  const size_t first = after_space(text, 0);
  return first < text.size() && text[first] == '[';
}

}  // namespace

void visit_json_lines(std::string_view text, const std::string& path, const JsonVisitor& visitor) {
  if (holds_list(text)) return visit_list(text, path, visitor);
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (after_space(line, 0) == line.size()) continue;
    const std::string where = join(path, ":", number);
    visit_value(line, where, "column", false, visitor);
  }
}

void visit_json(std::string_view text, const std::string& path, const JsonVisitor& visitor) {
  holds_list(text) ? visit_list(text, path, visitor) : visit_objects(text, path, visitor);
}

}  // namespace weft
