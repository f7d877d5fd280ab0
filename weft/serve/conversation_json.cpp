#include "weft/serve/conversation_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "weft/serve/api_error.h"
#include "weft/serve/fields.h"

namespace weft::serve {
namespace {

using Ordered = nlohmann::ordered_json;

const Ordered* member(const Ordered& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Joins [{"type": "text", "text": "a"}, ...] to one text.
std::string text_of_parts(const Ordered& parts, const std::string& param) {
  std::string text;
  for (const Ordered& part : parts) {
    const Ordered* of = part.is_object() ? member(part, "text") : nullptr;
    const Ordered* type = part.is_object() ? member(part, "type") : nullptr;
    if (!of || !of->is_string() || (type && *type != "text")) refuse(param, param, " has a part that is not text");
    text += of->get<std::string>();
  }
  return text;
}

// Whether a template prints the value as it was written: it is nested no deeper than conversations may be and its integers have 64 bits.
bool prints_alike(const Json& value, int levels) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t(INT64_MAX);
  if (value.is_number_float()) return std::abs(value.get<double>()) < 0x1p63;  // a larger integer was parsed as a float
  return !value.is_structured() || (levels > 0 && std::ranges::all_of(value, [=](const Json& v) { return prints_alike(v, levels - 1); }));
}

// Whether `text` is a JSON object within the limits of a request's body.
bool is_object(const std::string& text) {
  constexpr int kLevels = 48;  // a conversation may have 64, including those around the arguments
  try {
    return prints_alike(parse_body(text), kLevels);
  } catch (const ApiError&) {
    return false;
  }
}

// OpenAI's clients send the arguments of a tool call as JSON text, but templates print an object. Text that is not a JSON object is left
// unchanged, and so is an object that would be printed differently.
void parse_arguments(Ordered& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Ordered& call : *calls) {
    if (!call.is_object() || !member(call, "function") || !call["function"].is_object()) continue;
    Ordered& function = call["function"];
    const Ordered* arguments = member(function, "arguments");
    if (!arguments || !arguments->is_string()) continue;
    const std::string text = arguments->get<std::string>();
    if (is_object(text)) function["arguments"] = Ordered::parse(text);
  }
}

Ordered message_of(Ordered message, size_t index) {
  const std::string param = join("messages.", index);
  if (!message.is_object()) refuse(param, param, " is not an object");
  const Ordered* role = member(message, "role");
  if (!role || !role->is_string()) refuse(param + ".role", param, ".role is missing or not a string");
  if (*role == "developer") message["role"] = "system";
  parse_arguments(message);
  if (const Ordered* content = member(message, "content")) {
    if (content->is_array())
      message["content"] = text_of_parts(*content, param + ".content");
    else if (!content->is_string())
      refuse(param + ".content", param, ".content is neither a string nor a list of texts");
  }
  return message;
}

}  // namespace

std::string conversation_json(std::string_view body) {
  const Ordered request = Ordered::parse(body);
  const Ordered* messages = member(request, "messages");
  if (!messages || !messages->is_array() || messages->empty()) refuse("messages", "messages is missing, empty or not a list");
  Ordered conversation;
  if (const Ordered* variables = member(request, "chat_template_kwargs")) {
    if (!variables->is_object()) refuse("chat_template_kwargs", "chat_template_kwargs is not an object");
    conversation = *variables;
  }
  conversation["messages"] = Ordered::array();
  for (size_t i = 0; i < messages->size(); ++i) conversation["messages"].push_back(message_of((*messages)[i], i));
  const Ordered* choice = member(request, "tool_choice");
  if (const Ordered* tools = member(request, "tools"); tools && !(choice && *choice == "none")) {
    if (!tools->is_array()) refuse("tools", "tools is not a list");
    conversation["tools"] = *tools;
  }
  return conversation.dump();
}

}  // namespace weft::serve
