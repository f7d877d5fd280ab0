// Methods of strings that cut and join: strip, split, partition, join, format.
#include <algorithm>

#include "weft/chat/format.h"
#include "weft/chat/iteration.h"
#include "weft/chat/machine.h"
#include "weft/chat/methods.h"
#include "weft/chat/operators.h"
#include "weft/chat/printing.h"
#include "weft/chat/text.h"
#include "weft/chat/trouble.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft::chat {
namespace {

template <bool left, bool right>
Value strip(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "strip()", {"chars"});
  std::optional<std::string_view> chars;
  if (bound[0] && !bound[0]->is_none()) chars = text(*bound[0], "strip()");
  machine.heap().touch(self.text().size() + (chars ? chars->size() * 4 : 0));
  return machine.heap().string(std::string(stripped(self.text(), chars, left, right)), self.string().markup);
}

size_t spaces_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size()) {
    const Utf8Step step = utf8_step(text.substr(end));
    if (!is_space(step.code)) break;
    end += step.length;
  }
  return end - at;
}

// At white space, which is stripped from the ends; what is left after `most` cuts keeps its own.
std::vector<std::string_view> words(std::string_view text, int64_t most) {
  std::vector<std::string_view> parts;
  size_t at = spaces_at(text, 0);
  while (at < text.size()) {
    if (most >= 0 && int64_t(parts.size()) == most) {
      parts.push_back(text.substr(at));
      break;
    }
    size_t end = at;
    while (end < text.size() && spaces_at(text, end) == 0) end += utf8_step(text.substr(end)).length;
    parts.push_back(text.substr(at, end - at));
    at = end + spaces_at(text, end);
  }
  return parts;
}

std::vector<std::string_view> words_from_right(std::string_view text, int64_t most) {
  std::vector<std::string_view> parts;
  text = stripped(text, std::nullopt, false, true);
  while (!text.empty()) {
    if (most >= 0 && int64_t(parts.size()) == most) {
      parts.push_back(text);
      break;
    }
    size_t start = text.size();
    for (size_t at = start; at > 0;) {
      do --at;
      while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
      if (is_space(utf8_step(text.substr(at)).code)) break;
      start = at;
    }
    parts.push_back(text.substr(start));
    text = stripped(text.substr(0, start), std::nullopt, false, true);
  }
  std::erase_if(parts, [](std::string_view part) { return part.empty(); });
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> pieces(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string_view> parts;
  size_t at = 0;
  for (size_t found = text.find(separator); found != text.npos && (most < 0 || int64_t(parts.size()) < most);
       found = text.find(separator, at)) {
    parts.push_back(text.substr(at, found - at));
    at = found + separator.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

std::vector<std::string_view> pieces_from_right(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string_view> parts;
  while (most < 0 || int64_t(parts.size()) < most) {
    const size_t found = text.rfind(separator);
    if (found == text.npos) break;
    parts.push_back(text.substr(found + separator.size()));
    text = text.substr(0, found);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Value as_list(Heap& heap, const std::vector<std::string_view>& parts, bool markup) {
  heap.expect(parts.size() * (sizeof(Value) + sizeof(Text)));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(heap.string(std::string(part), markup));
  return heap.list(std::move(items));
}

template <bool from_right>
Value split(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "split()", {"sep", "maxsplit"});
  const int64_t most = bound[1] ? whole(*bound[1], "split()") : -1;
  Heap& heap = machine.heap();
  heap.touch(self.text().size() * 4);
  heap.expect(self.text().size() * sizeof(std::string_view));
  const bool markup = self.string().markup;
  if (!bound[0] || bound[0]->is_none())
    return as_list(heap, from_right ? words_from_right(self.text(), most) : words(self.text(), most), markup);
  const std::string& separator = text(*bound[0], "split()");
  if (separator.empty()) wrong("empty separator");
  return as_list(heap, from_right ? pieces_from_right(self.text(), separator, most) : pieces(self.text(), separator, most), markup);
}

Value split_lines(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "splitlines()", {"keepends"});
  machine.heap().touch(self.text().size() * 4);
  return as_list(machine.heap(), lines_of(self.text(), bound[0] && truthy(*bound[0])), self.string().markup);
}

template <bool from_right>
Value partition(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "partition()", {"sep"}, 1);
  const std::string &separator = text(*bound[0], "partition()"), &all = self.text();
  if (separator.empty()) wrong("empty separator");
  const size_t at = from_right ? all.rfind(separator) : all.find(separator);
  const bool markup = self.string().markup;
  Heap& heap = machine.heap();
  const Value none = heap.string("", markup);
  if (at == all.npos) return from_right ? heap.tuple({none, none, self}) : heap.tuple({self, none, none});
  return heap.tuple(
      {heap.string(all.substr(0, at), markup), heap.string(separator, markup), heap.string(all.substr(at + separator.size()), markup)});
}

Value join(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "join()", {"iterable"}, 1);
  Heap& heap = machine.heap();
  const bool markup = self.string().markup;
  std::string out;
  size_t index = 0;
  for (const Value& item : collected(heap, *bound[0])) {
    if (!item.is_string() && !markup) wrong("sequence item ", index, ": expected str instance, ", type_name(item), " found");
    if (index++ > 0) out += self.text();
    const bool escapes = markup && !(item.is_string() && item.string().markup);
    out += escapes ? escaped_html(printed(machine, item)) : item.text();
    heap.expect(out.size());
    heap.touch(self.text().size() + 64);
  }
  return heap.string(std::move(out), markup);
}

Value format(Machine& machine, const Value& self, Arguments& arguments) {
  return machine.heap().string(brace_formatted(machine, self.text(), arguments), self.string().markup);
}

Value expand_tabs(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "expandtabs()", {"tabsize"});
  const int64_t size = bound[0] ? whole(*bound[0], "expandtabs()") : 8;
  std::u32string out;
  int64_t column = 0;
  for (const char32_t code : decoded(self.text())) {
    if (code == '\t') {
      const int64_t missing = size > 0 ? size - column % size : 0;
      machine.heap().expect((out.size() + size_t(missing)) * 8);
      out.append(size_t(missing), U' ');
      column += missing;
    } else {
      out += code;
      column = code == '\n' || code == '\r' ? 0 : column + 1;
    }
  }
  return machine.heap().string(encoded(out), self.string().markup);
}

constexpr MethodEntry kMethods[] = {
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", split_lines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"join", join},
    {"format", format},
    {"expandtabs", expand_tabs},
};

}  // namespace

std::span<const MethodEntry> string_cut_methods() { return kMethods; }

std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends) {
  const auto ends_line = [](char32_t code) {
    return (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 || code == 0x2029;
  };
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    size_t next = at + step.length;
    if (ends_line(step.code)) {
      if (step.code == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(start, (keep_ends ? next : at) - start));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

}  // namespace weft::chat
