// Contents of a conversation, as values of templates.
#pragma once

#include "weft/chat/conversation.h"
#include "weft/chat/machine.h"

namespace weft {

struct Conversation::State {
  std::vector<chat::Value> messages;  // dicts
  chat::Variables variables;          // tools, documents and further ones, in the order in which they were set
};

namespace chat {

// A JSON document as a value: the order of keys is kept. Throws bad_file with `file` and what was expected.
Value parse_value(std::string_view json, const std::string& file);

// Sets a variable, or replaces it. Tools and documents must be lists of objects, or null.
void set_variable(Variables& variables, std::string_view name, Value value, const std::string& file);

}  // namespace chat
}  // namespace weft
