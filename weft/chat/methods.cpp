#include "weft/chat/methods.h"

#include <algorithm>

#include "weft/chat/iteration.h"
#include "weft/chat/machine.h"
#include "weft/chat/operators.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

Value dict_items(Machine& machine, const Value& self, Arguments& arguments) {
  bind(arguments, "items()", {});
  return machine.heap().view(self, View::Part::items);
}
Value dict_keys(Machine& machine, const Value& self, Arguments& arguments) {
  bind(arguments, "keys()", {});
  return machine.heap().view(self, View::Part::keys);
}
Value dict_values(Machine& machine, const Value& self, Arguments& arguments) {
  bind(arguments, "values()", {});
  return machine.heap().view(self, View::Part::values);
}

Value dict_get(Machine& machine, const Value& self, Arguments& arguments) {
  if (!arguments.named.empty()) wrong("dict.get() takes no keyword arguments");
  auto bound = bind(arguments, "get()", {"key", "default"}, 1);
  machine.heap().step(bound[0]->weight() / 16);
  hash_of(*bound[0]);  // throws for a value that cannot be a key
  if (const Value* found = self.dict().find(*bound[0])) return *found;
  return bound[1].value_or(Value());
}

Value copied(Machine&, const Value& self, Arguments& arguments) {
  bind(arguments, "copy()", {});
  return self;
}

Value count_of(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "count()", {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.items()) {
    machine.heap().step(std::min(item.weight(), bound[0]->weight()));
    count += equal(item, *bound[0]);
  }
  return Value(count);
}

Value index_of(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "index()", {"value", "start", "stop"}, 1);
  const auto size = int64_t(self.items().size());
  const auto place = [&](const std::optional<Value>& given, int64_t otherwise) {
    if (!given) return otherwise;
    const int64_t at = whole(*given, "index()");
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  for (int64_t i = place(bound[1], 0), stop = place(bound[2], size); i < stop; ++i) {
    machine.heap().step(std::min(self.items()[size_t(i)].weight(), bound[0]->weight()));
    if (equal(self.items()[size_t(i)], *bound[0])) return Value(i);
  }
  wrong("the value of index() is not in the ", type_name(self));
}

Value is_integer(Machine&, const Value& self, Arguments& arguments) {
  bind(arguments, "is_integer()", {});
  return Value(self.is_whole() || self.number() == double(int64_t(self.number())));
}

constexpr MethodEntry kDict[] = {{"get", dict_get}, {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"copy", copied}};
constexpr MethodEntry kList[] = {{"copy", copied}, {"count", count_of}, {"index", index_of}};
constexpr MethodEntry kTuple[] = {{"count", count_of}, {"index", index_of}};
constexpr MethodEntry kFloat[] = {{"is_integer", is_integer}};

// Methods that Jinja's immutable sandbox refuses: they change the value.
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListChanges[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};

// Methods of Python that are not here: calling one says so.
constexpr std::string_view kStringAbsent[] = {"encode", "format_map", "maketrans", "translate"};
constexpr std::string_view kDictAbsent[] = {"fromkeys"};

template <class Names>
bool listed(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Callable found_in(std::span<const MethodEntry> methods, std::string_view name) {
  for (const MethodEntry& entry : methods)
    if (entry.name == name) return entry.function;
  return nullptr;
}

Callable find_method(const Value& self, std::string_view name) {
  switch (self.type()) {
    case Type::string:
      for (const auto methods : {string_case_methods(), string_search_methods(), string_cut_methods()})
        if (const Callable found = found_in(methods, name)) return found;
      return nullptr;
    case Type::dict: return found_in(kDict, name);
    case Type::list: return found_in(kList, name);
    case Type::tuple: return found_in(kTuple, name);
    case Type::number: return found_in(kFloat, name);
    default: return nullptr;
  }
}

bool changes(const Value& self, std::string_view name) {
  return (self.is_dict() && listed(kDictChanges, name)) || (self.is(Type::list) && listed(kListChanges, name));
}

bool absent(const Value& self, std::string_view name) {
  return (self.is_dict() && listed(kDictAbsent, name)) || (self.is_string() && listed(kStringAbsent, name));
}

// A method that exists in Python only: calling it is an error that says so.
struct Absent : Native {
  explicit Absent(std::string name) : name(std::move(name)) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value call(Machine&, Arguments&) override { not_supported("the method ", name, "() is not supported"); }
  std::string name;
};

}  // namespace

Value method(Machine& machine, const Value& self, std::string_view name) {
  Heap& heap = machine.heap();
  if (const Callable found = find_method(self, name))
    return heap.keep(Type::object, std::make_shared<Function>(std::string(name), found, self, true), sizeof(Function), self.depth() + 1);
  if (changes(self, name)) return heap.undefined(join("access to attribute '", name, "' of '", type_name(self), "' object is unsafe."));
  if (absent(self, name)) return heap.keep(Type::object, std::make_shared<Absent>(join(type_name(self), ".", name)), sizeof(Absent), 0);
  return Value();
}

}  // namespace weft::chat
