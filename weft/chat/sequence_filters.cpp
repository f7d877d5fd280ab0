#include <algorithm>

#include "weft/chat/filters.h"
#include "weft/chat/iteration.h"
#include "weft/chat/machine.h"
#include "weft/chat/operators.h"
#include "weft/chat/printing.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

struct Generated : Iterator {
  explicit Generated(std::function<bool(Value&)> function) : function(std::move(function)) {}
  bool next(Value& element) override { return function(element); }
  std::function<bool(Value&)> function;
};

int depth_of(const Value& value, const Arguments& arguments) {
  int depth = value.depth();
  for (const Value& given : arguments.positional) depth = std::max(depth, given.depth());
  for (const auto& [name, given] : arguments.named) depth = std::max(depth, given.depth());
  return depth;
}

// The elements of a value, taken when the first one is asked for; a false value has none.
struct Source {
  bool next(Heap& heap, Value& element) {
    if (!started) {
      started = true;
      if (truthy(value)) elements = iterate(heap, value);
    }
    return elements.is(Type::iterator) && chat::next(heap, elements, element);
  }
  Value value, elements;
  bool started = false;
};

Value length(Machine&, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter length", {});
  const int64_t length = length_of(value);
  if (length < 0) wrong("object of type '", type_name(value), "' has no len()");
  return Value(length);
}

Value list(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter list", {});
  return machine.heap().list(collected(machine.heap(), value));
}

Value first(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter first", {});
  Value element;
  if (next(machine.heap(), iterate(machine.heap(), value), element)) return element;
  return machine.heap().undefined("No first item, sequence was empty.");
}

void require_reversible(const Value& value) {
  if (value.is(Type::iterator) || !is_iterable(value)) wrong("'", type_name(value), "' object is not reversible");
}

Value last(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter last", {});
  require_reversible(value);
  if (value.is_sequence() && !value.items().empty()) return value.items().back();
  if (value.is_string() && !value.text().empty()) return machine.item(value, Value(-1));
  const std::vector<Value> items = collected(machine.heap(), value);
  return items.empty() ? machine.heap().undefined("No last item, sequence was empty.") : items.back();
}

Value reverse(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter reverse", {});
  if (value.is_string()) return machine.slice(value, Value(), Value(), Value(-1));
  std::vector<Value> items = collected(machine.heap(), value);
  std::reverse(items.begin(), items.end());
  const Value reversed = machine.heap().list(std::move(items));
  return value.is(Type::iterator) ? reversed : iterate(machine.heap(), reversed);
}

Value default_value(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter default", {"default_value", "boolean"});
  const bool taken = value.is_undefined() || (bound[1] && truthy(*bound[1]) && !truthy(value));
  return !taken ? value : bound[0] ? *bound[0] : machine.heap().string("");
}

Value join(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter join", {"d", "attribute"});
  Heap& heap = machine.heap();
  const AttributeGetter attribute(machine, bound[1], false);
  const std::string separator = bound[0] ? printed(machine, *bound[0]) : "";
  std::string out;
  bool first = true;
  const Value elements = iterate(heap, value);
  Value element;
  while (next(heap, elements, element)) {
    if (!first) out += separator;
    first = false;
    out += printed(machine, attribute(element));
    heap.expect(out.size());
    heap.touch(separator.size());
  }
  return heap.string(std::move(out));
}

Value items(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter items", {});
  Heap& heap = machine.heap();
  return generated(heap, value.depth(), [&heap, value, elements = Value()](Value& element) mutable {
    if (value.is_undefined()) return false;
    if (!value.is_dict()) wrong("Can only get item pairs from a mapping.");
    if (elements.is_none()) elements = iterate(heap, heap.view(value, View::Part::items));
    return chat::next(heap, elements, element);
  });
}

Value map(Machine& machine, const Value& value, Arguments& arguments) {
  return generated(machine.heap(), depth_of(value, arguments),
                   [&machine, arguments, source = Source{value, {}, false}](Value& element) mutable {
                     if (!source.next(machine.heap(), element)) return false;
                     const Machine::Level level(machine);
                     if (arguments.positional.empty() && arguments.find("attribute")) {
                       const Value *attribute = arguments.find("attribute"), *otherwise = arguments.find("default");
                       if (arguments.named.size() > (otherwise ? 2u : 1u)) wrong("the filter map has an unexpected keyword argument");
                       element = AttributeGetter(machine, *attribute, false, otherwise ? std::optional(*otherwise) : std::nullopt)(element);
                       return true;
                     }
                     if (arguments.positional.empty()) wrong("the filter map needs the name of a filter");
                     Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
                     element = machine.filter(text(arguments.positional[0], "the filter map"), element, rest);
                     return true;
                   });
}

// select, reject, selectattr, rejectattr.
template <bool wanted, bool by_attribute>
Value select(Machine& machine, const Value& value, Arguments& arguments) {
  return generated(machine.heap(), depth_of(value, arguments),
                   [&machine, arguments, source = Source{value, {}, false}](Value& element) mutable {
                     const auto& given = arguments.positional;
                     while (source.next(machine.heap(), element)) {
                       const Machine::Level level(machine);
                       if (by_attribute && given.empty()) wrong("selectattr and rejectattr need the name of an attribute");
                       const Value tested = by_attribute ? AttributeGetter(machine, given[0], false)(element) : element;
                       bool passes = truthy(tested);
                       if (given.size() > by_attribute) {
                         Arguments rest{{given.begin() + 1 + by_attribute, given.end()}, arguments.named};
                         passes = machine.test(text(given[by_attribute], "the name of a test"), tested, rest);
                       }
                       if (passes == wanted) return true;
                     }
                     return false;
                   });
}

Value batch(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter batch", {"linecount", "fill_with"}, 1);
  const int64_t count = whole(*bound[0], "the filter batch");
  const std::vector<Value> all = collected(machine.heap(), value);
  std::vector<Value> rows;
  std::vector<Value> row;
  for (const Value& element : all) {
    if (int64_t(row.size()) == count) rows.push_back(machine.heap().list(std::exchange(row, {})));
    row.push_back(element);
  }
  if (!row.empty()) {
    const int64_t missing = bound[1] && !bound[1]->is_none() ? std::max<int64_t>(count - int64_t(row.size()), 0) : 0;
    machine.heap().expect(size_t(std::min<int64_t>(missing, int64_t(1) << 40)) * sizeof(Value));
    row.insert(row.end(), size_t(missing), bound[1].value_or(Value()));
    rows.push_back(machine.heap().list(std::move(row)));
  }
  return iterate(machine.heap(), machine.heap().list(std::move(rows)));
}

Value slices(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter slice", {"slices", "fill_with"}, 1);
  const int64_t count = whole(*bound[0], "the filter slice");
  const std::vector<Value> all = collected(machine.heap(), value);
  if (count == 0) wrong("integer division or modulo by zero");
  std::vector<Value> rows;
  const int64_t each = int64_t(all.size()) / count, extra = int64_t(all.size()) % count;
  auto at = all.begin();
  for (int64_t i = 0; i < count; ++i) {
    machine.heap().step();
    const int64_t size = each + (i < extra);
    std::vector<Value> row(at, at + size);
    at += size;
    if (bound[1] && !bound[1]->is_none() && i >= extra) row.push_back(*bound[1]);
    rows.push_back(machine.heap().list(std::move(row)));
  }
  return iterate(machine.heap(), machine.heap().list(std::move(rows)));
}

Value attribute(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter attr", {"name"}, 1);
  const std::string& name = text(*bound[0], "the filter attr");
  if (value.is(Type::object)) return machine.attribute(value, name);
  const Value found = value.is_undefined() ? Value() : method(machine, value, name);
  return found.is_none() ? machine.heap().undefined(weft::join("'", described(value), "' has no attribute '", name, "'")) : found;
}

constexpr MethodEntry kFilters[] = {
    {"length", length},
    {"count", length},
    {"list", list},
    {"first", first},
    {"last", last},
    {"reverse", reverse},
    {"default", default_value},
    {"d", default_value},
    {"join", join},
    {"items", items},
    {"map", map},
    {"select", select<true, false>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<false, true>},
    {"batch", batch},
    {"slice", slices},
    {"attr", attribute},
};

}  // namespace

std::span<const MethodEntry> sequence_filters() { return kFilters; }

Value generated(Heap& heap, int depth, std::function<bool(Value&)> next) {
  return heap.keep(Type::iterator, std::make_shared<Generated>(std::move(next)), 512, depth + 1);
}

}  // namespace weft::chat
