#include "weft/chat/chat_example.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/chat/conversation_state.h"

namespace weft {
namespace {

using chat::Heap;
using chat::Type;
using chat::Value;

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

bool has_text(const Value* value) {
  if (!value) return false;
  if (value->is_string()) return !is_blank(value->text());
  if (!value->is(Type::list)) return false;
  return std::any_of(value->items().begin(), value->items().end(), [](const Value& part) {
    return part.is_string() ? has_text(&part) : part.is_dict() && has_text(part.dict().member("text"));
  });
}

// Whether an assistant's message says something: a text, a call of a tool, or reasoning.
bool says_something(const Value& message) {
  const Value* calls = message.dict().member("tool_calls");
  if (calls && calls->is(Type::list) && !calls->items().empty()) return true;
  for (const char* name : {"content", "reasoning_content", "reasoning", "thinking"})
    if (has_text(message.dict().member(name))) return true;
  return false;
}

void check_message(const Value& message, size_t index, const std::string& where) {
  if (!message.is_dict())
    fail(ErrorCode::bad_file, where, "message ", index, " is not an object such as {\"role\": \"user\", \"content\": \"...\"}");
  const Value* role = message.dict().member("role");
  if (!role) fail(ErrorCode::bad_file, where, "message ", index, " has no \"role\"");
  if (!role->is_string() || std::find(std::begin(kRoles), std::end(kRoles), role->text()) == std::end(kRoles))
    fail(ErrorCode::bad_file, where, "message ", index, " has the role ", role->is_string() ? "'" + role->text() + "'" : "of another type",
         ", expected system, developer, user, assistant or tool");
  const Value* content = message.dict().member("content");
  if (content && !content->is_none() && !content->is_string() && !content->is(Type::list))
    fail(ErrorCode::bad_file, where, "message ", index, " has a \"content\" that is neither a text nor a list of parts");
  if (role->text() == "user" && (!content || content->is_none()))
    fail(ErrorCode::bad_file, where, "message ", index, " of the user has no \"content\"");
  if (role->text() == "assistant" && !says_something(message))
    fail(ErrorCode::bad_file, where, "message ", index, " is an empty answer: the assistant's message has neither content nor tool calls");
}

bool is_answer(const Value& message) { return message.dict().member("role")->text() == "assistant"; }

Value message_of(const char* role, const Value& content) {
  Heap heap;
  std::vector<chat::Dict::Entry> entries;
  entries.emplace_back(heap.string("role"), heap.string(role));
  entries.emplace_back(heap.string("content"), content);
  return heap.dict(std::move(entries));
}

// A text is one message of `role`.
std::vector<Value> messages_in(const Value& value, const char* key, const char* role, const std::string& where) {
  if (value.is_string()) {
    if (is_blank(value.text())) fail(ErrorCode::bad_file, where, "its \"", key, "\" is empty");
    return {message_of(role, value)};
  }
  if (!value.is(Type::list)) fail(ErrorCode::bad_file, where, "its \"", key, "\" is neither a text nor a list of messages");
  if (value.items().empty()) fail(ErrorCode::bad_file, where, "its \"", key, "\" is empty");
  return value.items();
}

}  // namespace

ChatExample parse_chat_example(std::string_view json, const std::string& where) {
  const Value line = chat::parse_value(json, where);
  if (!line.is_dict())
    fail(ErrorCode::bad_file, where, "is not an object, expected one with \"messages\", or with \"prompt\" and \"completion\"");
  const Value *messages = line.dict().member("messages"), *prompt = line.dict().member("prompt"),
              *completion = line.dict().member("completion");
  if (!messages && !(prompt && completion)) fail(ErrorCode::bad_file, where, "has neither \"messages\" nor \"prompt\" and \"completion\"");
  Conversation::State state;
  size_t first = 0;
  if (messages) {
    if (!messages->is(Type::list)) fail(ErrorCode::bad_file, where, "its \"messages\" is not a list");
    state.messages = messages->items();
  } else {
    state.messages = messages_in(*prompt, "prompt", "user", where);
    first = state.messages.size();
    for (const Value& each : messages_in(*completion, "completion", "assistant", where)) state.messages.push_back(each);
  }
  for (size_t i = 0; i < state.messages.size(); ++i) check_message(state.messages[i], i, where);
  if (std::none_of(state.messages.begin() + ptrdiff_t(first), state.messages.end(), is_answer))
    fail(ErrorCode::bad_file, where, "has no message of the assistant", messages ? "" : " in its \"completion\"",
         ": there is nothing to learn");
  for (const auto& [key, value] : line.dict().entries)
    if (key.text() != "messages" && (messages || (key.text() != "prompt" && key.text() != "completion")))
      chat::set_variable(state.variables, key.text(), value, where);
  return {Conversation(std::move(state)), first};
}

}  // namespace weft
