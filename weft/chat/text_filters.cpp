#include <algorithm>

#include "weft/chat/filters.h"
#include "weft/chat/format.h"
#include "weft/chat/iteration.h"
#include "weft/chat/machine.h"
#include "weft/chat/operators.h"
#include "weft/chat/printing.h"
#include "weft/chat/text.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

// The value itself if it is a string, which keeps its markup, else str() of it.
Value soft_text(Machine& machine, const Value& value) { return value.is_string() ? value : machine.heap().string(printed(machine, value)); }

Value as_method(Machine& machine, const Value& value, std::string_view name, Arguments& arguments) {
  return machine.call(method(machine, soft_text(machine, value), name), arguments);
}

Value trim(Machine& machine, const Value& value, Arguments& arguments) { return as_method(machine, value, "strip", arguments); }
Value upper_case(Machine& machine, const Value& value, Arguments& arguments) { return as_method(machine, value, "upper", arguments); }
Value lower_case(Machine& machine, const Value& value, Arguments& arguments) { return as_method(machine, value, "lower", arguments); }
Value capitalize(Machine& machine, const Value& value, Arguments& arguments) { return as_method(machine, value, "capitalize", arguments); }

Value center(Machine& machine, const Value& value, Arguments& arguments) {
  if (arguments.positional.empty() && arguments.named.empty()) arguments.positional.push_back(Value(80));
  return as_method(machine, value, "center", arguments);
}

// Jinja's own rule: words start after white space and after - ( { [ <.
Value title(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter title", {});
  std::u32string word;
  std::string out;
  const auto flush = [&] {
    if (word.empty()) return;
    out += upper(encoded(word.substr(0, 1))) + lower(encoded(word.substr(1)));
    word.clear();
  };
  for (const char32_t code : decoded(printed(machine, value))) {
    if (code == '-' || code == '(' || code == '{' || code == '[' || code == '<' || is_space(code)) {
      flush();
      out += encoded(std::u32string(1, code));
    } else {
      word += code;
    }
  }
  flush();
  return machine.heap().string(std::move(out));
}

Value string(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter string", {});
  return soft_text(machine, value);
}

Value replace(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter replace", {"old", "new", "count"}, 2);
  const int64_t most = bound[2] && !bound[2]->is_none() ? whole(*bound[2], "the filter replace") : -1;
  return machine.heap().string(
      replaced(machine.heap(), printed(machine, value), printed(machine, *bound[0]), printed(machine, *bound[1]), most));
}

Value format(Machine& machine, const Value& value, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) wrong("the filter format takes positional or named values, not both");
  std::vector<Dict::Entry> entries;
  for (const auto& [name, named] : arguments.named) entries.emplace_back(machine.heap().string(name), named);
  const Value values = entries.empty() ? machine.heap().tuple(arguments.positional) : machine.heap().dict(std::move(entries));
  return percent_formatted(machine, soft_text(machine, value), values);
}

Value indent(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter indent", {"width", "first", "blank"});
  const std::string& all = text(value, "the value of the filter indent");
  const bool first = bound[1] && truthy(*bound[1]), blank = bound[2] && truthy(*bound[2]);
  Heap& heap = machine.heap();
  const Value width = bound[0].value_or(Value(4));
  const bool markup = value.string().markup;
  std::string unit = width.is_string() ? width.text() : operate(heap, Operator::multiply, heap.string(" "), width).text();
  std::string out;
  size_t index = 0;
  const std::string ended = all + "\n";
  for (const std::string_view line : lines_of(ended, false)) {
    if (index > 0) out += "\n";
    if (index == 0 ? first : blank || !line.empty()) out += unit;
    out += line;
    ++index;
    heap.expect(out.size());
    heap.touch(line.size() + unit.size());
  }
  return heap.string(std::move(out), markup);
}

Value truncate(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter truncate", {"length", "killwords", "end", "leeway"});
  const int64_t length = bound[0] ? whole(*bound[0], "the filter truncate") : 255;
  const int64_t leeway = bound[3] && !bound[3]->is_none() ? whole(*bound[3], "the filter truncate") : 5;
  const std::string end = bound[2] ? text(*bound[2], "the filter truncate") : "...";
  const auto kept = length - int64_t(code_points(end));
  if (kept < 0 || leeway < 0) wrong("the filter truncate needs a length of at least that of its end");
  const int64_t size = length_of(value);
  if (size >= 0 && size <= length + leeway) return value;
  const std::string& all = text(value, "the value of the filter truncate");
  std::string cut = all.substr(0, byte_offset(all, size_t(kept)));
  if (!bound[1] || !truthy(*bound[1])) cut = cut.substr(0, cut.rfind(' '));
  return machine.heap().string(cut + end);
}

Value word_count(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter wordcount", {});
  int64_t count = 0;
  bool inside = false;
  for (const char32_t code : decoded(printed(machine, value))) {
    const bool letter = code == '_' || is_alphabetic(code) || is_numeric(code);
    count += letter && !inside;
    inside = letter;
  }
  return Value(count);
}

Value escape(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter escape", {});
  if (value.is_string() && value.string().markup) return value;
  return machine.heap().string(escaped_html(printed(machine, value)), true);
}

Value force_escape(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter forceescape", {});
  return machine.heap().string(escaped_html(printed(machine, value)), true);
}

Value safe(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter safe", {});
  return machine.heap().string(printed(machine, value), true);
}

Value to_json(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = bound[0] && truthy(*bound[0]);
  style.sort_keys = bound[3] && truthy(*bound[3]);
  Heap& heap = machine.heap();
  if (bound[1] && !bound[1]->is_none()) {
    style.indent = bound[1]->is_string() ? bound[1]->text() : operate(heap, Operator::multiply, heap.string(" "), *bound[1]).text();
    style.item_separator.assign(1, ',');
  }
  if (bound[2] && !bound[2]->is_none()) {
    const std::vector<Value> separators = collected(heap, *bound[2]);
    if (separators.size() != 2) wrong("the filter tojson needs two separators");
    style.item_separator = text(separators[0], "a separator"), style.key_separator = text(separators[1], "a separator");
  }
  return heap.string(json_text(heap, value, style));
}

constexpr MethodEntry kFilters[] = {
    {"trim", trim},      {"upper", upper_case},  {"lower", lower_case}, {"capitalize", capitalize},
    {"title", title},    {"string", string},     {"replace", replace},  {"format", format},
    {"indent", indent},  {"truncate", truncate}, {"center", center},    {"wordcount", word_count},
    {"escape", escape},  {"e", escape},          {"safe", safe},        {"forceescape", force_escape},
    {"tojson", to_json},
};

}  // namespace

std::span<const MethodEntry> text_filters() { return kFilters; }

}  // namespace weft::chat
