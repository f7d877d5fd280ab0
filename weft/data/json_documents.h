// Documents in JSON. Not installed.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// The place of a JSON value: in a line of its own, in a list, or in a row of objects.
struct JsonForm {
  const char* step = "column";  // unit of the parser's position in messages: "column" or "byte"
  bool string_allowed = false;  // a string is a document
};

struct JsonDocument {
  std::string text;           // of a conversation: its JSON
  bool conversation = false;  // there is no text, but a list of messages
};

// Throws bad_file with `where` for a value that is not JSON or has no string in `field`.
JsonDocument json_document(std::string_view value, const std::string& where, const JsonForm& form, const std::string& field);

// Finds the end of a JSON value by quotes and brackets alone, in parts; the parser reports errors inside it.
class ValueEnd {
 public:
  // Whether the value ends within `text`, which continues what was seen before; then position() is its end, from the value's start.
  bool find(std::string_view text);
  size_t position() const { return position_; }

 private:
  bool step(char c);  // false: the value ended before c

  size_t position_ = 0;
  int64_t depth_ = 0;
  bool string_ = false, escaped_ = false, scalar_ = false, done_ = false;
};

std::string shown_character(char c);  // for messages: 'x', or byte 255

}  // namespace weft
