// Methods of strings that look for texts: find, count, startswith, replace.
#include <algorithm>

#include "weft/chat/machine.h"
#include "weft/chat/methods.h"
#include "weft/chat/operators.h"
#include "weft/chat/text.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

// The part of a text between two indices of Python, and its first code point. `none`: the start lies beyond the end, nothing is found.
struct Part {
  Part(Machine& machine, const Text& whole_text, const std::optional<Value>& start, const std::optional<Value>& stop) {
    const auto size = int64_t(whole_text.length);
    const auto place = [&](const std::optional<Value>& given, int64_t otherwise) {
      if (!given || given->is_none()) return otherwise;
      const int64_t at = whole(*given, "an index");
      return at < 0 ? std::max<int64_t>(at + size, 0) : at;
    };
    machine.heap().touch(whole_text.text.size());
    first = place(start, 0);
    const int64_t last = std::min(place(stop, size), size);
    none = first > size || first > last;
    if (none) return;
    const std::string_view all = whole_text.text;
    const size_t from = whole_text.ascii() ? size_t(first) : byte_offset(all, size_t(first));
    text = all.substr(from);
    text = text.substr(0, whole_text.ascii() ? size_t(last - first) : byte_offset(text, size_t(last - first)));
  }
  std::string_view text;
  int64_t first = 0;
  bool none = false;
};

template <bool from_right>
int64_t found(Machine& machine, const Value& self, Arguments& arguments, std::string_view what) {
  const auto bound = bind(arguments, what, {"sub", "start", "end"}, 1);
  const std::string& wanted = text(*bound[0], what);
  const Part part(machine, self.string(), bound[1], bound[2]);
  if (part.none) return -1;
  const size_t at = from_right ? part.text.rfind(wanted) : part.text.find(wanted);
  return at == part.text.npos ? -1 : part.first + int64_t(code_points(part.text.substr(0, at)));
}

template <bool from_right>
Value find(Machine& machine, const Value& self, Arguments& arguments) {
  return Value(found<from_right>(machine, self, arguments, "find()"));
}

template <bool from_right>
Value index(Machine& machine, const Value& self, Arguments& arguments) {
  const int64_t at = found<from_right>(machine, self, arguments, "index()");
  if (at < 0) wrong("substring not found");
  return Value(at);
}

Value count(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "count()", {"sub", "start", "end"}, 1);
  const std::string& wanted = text(*bound[0], "count()");
  const Part part(machine, self.string(), bound[1], bound[2]);
  if (part.none) return Value(0);
  if (wanted.empty()) return Value(int64_t(code_points(part.text)) + 1);
  int64_t count = 0;
  for (size_t at = part.text.find(wanted); at != part.text.npos; at = part.text.find(wanted, at + wanted.size())) ++count;
  return Value(count);
}

// `wanted` is a string or a tuple of strings.
template <bool at_end>
Value starts_or_ends(Machine& machine, const Value& self, Arguments& arguments) {
  const std::string_view what = at_end ? "endswith()" : "startswith()";
  const auto bound = bind(arguments, what, {"prefix", "start", "end"}, 1);
  const Part part(machine, self.string(), bound[1], bound[2]);
  const auto matches = [&](const Value& wanted) {
    const std::string& affix = text(wanted, what);
    return !part.none && (at_end ? part.text.ends_with(affix) : part.text.starts_with(affix));
  };
  if (!bound[0]->is(Type::tuple)) return Value(matches(*bound[0]));
  return Value(std::any_of(bound[0]->items().begin(), bound[0]->items().end(), matches));
}

template <bool at_end>
Value without_affix(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "removeprefix() or removesuffix()", {"affix"}, 1);
  const std::string& affix = text(*bound[0], "removeprefix() or removesuffix()");
  std::string_view rest = self.text();
  if (at_end ? rest.ends_with(affix) : rest.starts_with(affix))
    rest = at_end ? rest.substr(0, rest.size() - affix.size()) : rest.substr(affix.size());
  return machine.heap().string(std::string(rest), self.string().markup);
}

Value replace(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "replace()", {"old", "new", "count"}, 2);
  const bool markup = self.string().markup;
  const std::string &old = text(*bound[0], "replace()"), &given = text(*bound[1], "replace()");
  const std::string fresh = markup && !bound[1]->string().markup ? escaped_html(given) : given;
  return machine.heap().string(replaced(machine.heap(), self.text(), old, fresh, bound[2] ? whole(*bound[2], "replace()") : -1), markup);
}

constexpr MethodEntry kMethods[] = {
    {"find", find<false>},
    {"rfind", find<true>},
    {"index", index<false>},
    {"rindex", index<true>},
    {"count", count},
    {"startswith", starts_or_ends<false>},
    {"endswith", starts_or_ends<true>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"replace", replace},
};

}  // namespace

std::span<const MethodEntry> string_search_methods() { return kMethods; }

std::string replaced(Heap& heap, std::string_view text, std::string_view old, std::string_view fresh, int64_t most) {
  std::string out;
  size_t at = 0;
  const auto add = [&](std::string_view part) {
    heap.expect(out.size() + part.size());
    heap.touch(part.size());
    out += part;
  };
  if (old.empty()) {  // between all characters, and at both ends
    for (; most != 0; --most) {
      add(fresh);
      if (at == text.size()) return out;
      const size_t next = at + byte_offset(text.substr(at), 1);
      add(text.substr(at, next - at));
      at = next;
    }
  }
  for (; most != 0; --most) {
    const size_t found = text.find(old, at);
    if (found == text.npos) break;
    add(text.substr(at, found - at));
    add(fresh);
    at = found + old.size();
  }
  add(text.substr(at));
  return out;
}

}  // namespace weft::chat
