// Python's two ways to format: "%s" % value and "{}".format(value).
#pragma once

#include <string>

#include "weft/chat/native.h"

namespace weft::chat {

Value percent_formatted(Machine& machine, const Value& format, const Value& values);
std::string brace_formatted(Machine& machine, const std::string& format, const Arguments& arguments);

// How one field is written.
struct Field {
  std::string fill = " ";
  char align = 0;   // '<', '>', '^', '=' (padding after the sign); 0: left for text, right for numbers
  char sign = '-';  // '+', ' ' or '-'
  bool alternate = false;
  char group = 0;  // ',' or '_' between thousands
  int64_t width = 0, precision = -1;
  char type = 0;
};
Field parsed_field(std::string_view spec);  // [[fill]align][sign][#][0][width][,][.precision][type]

std::string text_field(Heap& heap, std::string text, const Field& field);
std::string integer_field(Heap& heap, int64_t value, const Field& field);
std::string float_field(Heap& heap, double value, const Field& field);

}  // namespace weft::chat
