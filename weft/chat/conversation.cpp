#include "weft/chat/conversation.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/chat/conversation_state.h"
#include "weft/chat/printing.h"
#include "weft/io/json.h"
#include "weft/io/mapped_file.h"

namespace weft {

using chat::Heap;
using chat::Value;

namespace {

std::string kind_of(const Value& value) {
  using chat::Type;
  switch (value.type()) {
    case Type::none: return "null";
    case Type::boolean: return "true or false";
    case Type::string: return "a string";
    case Type::list: return "a list";
    case Type::dict: return "an object";
    default: return "a number";
  }
}

void check_message(const Value& message, const std::string& file, size_t index) {
  if (!message.is_dict())
    fail(ErrorCode::bad_file, file, "message ", index, " is ", kind_of(message),
         ", expected an object such as {\"role\": \"user\", \"content\": \"...\"}");
}

std::vector<Value> messages_of(const Value& list, const std::string& file) {
  if (!list.is(chat::Type::list)) fail(ErrorCode::bad_file, file, "\"messages\" is ", kind_of(list), ", expected a list of messages");
  for (size_t i = 0; i < list.items().size(); ++i) check_message(list.items()[i], file, i);
  return list.items();
}

// Tools and documents are lists of objects, or null.
void check_variable(const std::string& name, const Value& value, const std::string& file) {
  if ((name != "tools" && name != "documents") || value.is_none()) return;
  const bool objects =
      value.is(chat::Type::list) && std::all_of(value.items().begin(), value.items().end(), [](const Value& v) { return v.is_dict(); });
  if (!objects) fail(ErrorCode::bad_file, file, "\"", name, "\" must be a list of objects");
}

Value message_of(std::string_view role, std::string_view content) {
  Heap heap;
  std::vector<chat::Dict::Entry> entries;
  entries.emplace_back(heap.string("role"), heap.string(std::string(role)));
  entries.emplace_back(heap.string("content"), heap.string(std::string(content)));
  return heap.dict(std::move(entries));
}

}  // namespace

void chat::set_variable(Variables& variables, std::string_view name, Value value, const std::string& file) {
  check(name != "messages", "Conversation", "messages are not set as a variable");
  check_variable(std::string(name), value, file);
  for (auto& [known, old] : variables)
    if (known == name) {
      old = std::move(value);
      return;
    }
  variables.emplace_back(name, std::move(value));
}

Conversation::Conversation() : state_(std::make_unique<State>()) {}
Conversation::Conversation(State state) : state_(std::make_unique<State>(std::move(state))) {}
Conversation::Conversation(const Conversation& other) : state_(std::make_unique<State>(*other.state_)) {}
Conversation::Conversation(Conversation&&) noexcept = default;
Conversation& Conversation::operator=(const Conversation& other) { return *this = Conversation(other); }
Conversation& Conversation::operator=(Conversation&&) noexcept = default;
Conversation::~Conversation() = default;

Conversation Conversation::parse(std::string_view json, const std::string& file) {
  const Value document = chat::parse_value(json, file);
  Conversation made;
  if (document.is(chat::Type::list)) {
    made.state_->messages = messages_of(document, file);
    return made;
  }
  if (!document.is_dict())
    fail(ErrorCode::bad_file, file, "is ", kind_of(document), ", expected a list of messages or an object with \"messages\"");
  const Value* messages = document.dict().member("messages");
  if (!messages) fail(ErrorCode::bad_file, file, "has no \"messages\"");
  made.state_->messages = messages_of(*messages, file);
  for (const auto& [key, value] : document.dict().entries)
    if (key.text() != "messages") chat::set_variable(made.state_->variables, key.text(), value, file);
  return made;
}

Conversation Conversation::load(const std::string& path) {
  const MappedFile file(path);
  return parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

std::string Conversation::json() const {
  Heap heap;
  chat::JsonStyle style;
  style.indent = "  ";
  style.item_separator = ",";
  const Value messages = heap.list(state_->messages);
  if (state_->variables.empty()) return chat::json_text(heap, messages, style);
  std::vector<chat::Dict::Entry> entries;
  entries.emplace_back(heap.string("messages"), messages);
  for (const auto& [name, value] : state_->variables) entries.emplace_back(heap.string(name), value);
  return chat::json_text(heap, heap.dict(std::move(entries)), style);
}

size_t Conversation::size() const { return state_->messages.size(); }

std::string Conversation::role(size_t index) const {
  check(index < size(), "Conversation", "has ", size(), " messages, no message ", index);
  const Value* role = state_->messages[index].dict().member("role");
  return role && role->is_string() ? role->text() : "";
}

std::string Conversation::content(size_t index) const {
  check(index < size(), "Conversation", "has ", size(), " messages, no message ", index);
  const Value* content = state_->messages[index].dict().member("content");
  if (!content) return "";
  if (content->is_string()) return content->text();
  std::string text;
  if (content->is(chat::Type::list))
    for (const Value& part : content->items()) {
      const Value* piece = part.is_dict() ? part.dict().member("text") : nullptr;
      if (piece && piece->is_string()) text += piece->text();
    }
  return text;
}

void Conversation::add(std::string_view role, std::string_view content) { state_->messages.push_back(message_of(role, content)); }

void Conversation::add_json(std::string_view message) {
  Value value = chat::parse_value(message, "message");
  check_message(value, "message", size());
  state_->messages.push_back(std::move(value));
}

void Conversation::insert(size_t index, std::string_view role, std::string_view content) {
  check(index <= size(), "Conversation", "has ", size(), " messages, cannot insert message ", index);
  state_->messages.insert(state_->messages.begin() + ptrdiff_t(index), message_of(role, content));
}

void Conversation::erase(size_t first, size_t count) {
  check(first <= size() && count <= size() - first, "Conversation", "has ", size(), " messages, cannot erase ", count, " from message ",
        first);
  const auto from = state_->messages.begin() + ptrdiff_t(first);
  state_->messages.erase(from, from + ptrdiff_t(count));
}

void Conversation::pop_back() {
  check(size() > 0, "Conversation", "has no message to remove");
  state_->messages.pop_back();
}

void Conversation::set(std::string_view variable, bool value) {
  chat::set_variable(state_->variables, variable, Value(value), "Conversation");
}
void Conversation::set(std::string_view variable, int64_t value) {
  chat::set_variable(state_->variables, variable, Value(value), "Conversation");
}
void Conversation::set(std::string_view variable, double value) {
  chat::set_variable(state_->variables, variable, Value(value), "Conversation");
}
void Conversation::set(std::string_view variable, std::string_view value) {
  chat::set_variable(state_->variables, variable, Heap().string(std::string(value)), "Conversation");
}
void Conversation::set_json(std::string_view variable, std::string_view json) {
  chat::set_variable(state_->variables, variable, chat::parse_value(json, std::string(variable)), "Conversation");
}

bool Conversation::has(std::string_view variable) const {
  return std::any_of(state_->variables.begin(), state_->variables.end(), [&](const auto& entry) { return entry.first == variable; });
}
void Conversation::unset(std::string_view variable) {
  std::erase_if(state_->variables, [&](const auto& entry) { return entry.first == variable; });
}

}  // namespace weft
