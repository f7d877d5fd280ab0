// Values as text: Python's str() and repr(), and JSON as json.dumps() writes it.
#pragma once

#include <optional>
#include <string>

#include "weft/chat/value.h"

namespace weft::chat {

class Machine;

std::string printed(Machine& machine, const Value& value);      // str()
std::string represented(Machine& machine, const Value& value);  // repr()
std::string represented(double number);
std::string string_literal(std::string_view text);

struct JsonStyle {
  bool ascii = false, sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ", key_separator = ": ";
};
std::string json_text(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace weft::chat
