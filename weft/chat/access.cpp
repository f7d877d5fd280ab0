// Attributes, items and slices of values, as Jinja's sandbox gives them: a name that is not there is undefined, not an error.
#include <algorithm>

#include "weft/chat/machine.h"
#include "weft/chat/operators.h"
#include "weft/chat/printing.h"
#include "weft/chat/text.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

Value no_attribute(Heap& heap, const Value& of, std::string_view name) {
  return heap.undefined(join("'", described(of), "' has no attribute '", name, "'"));
}

// Start, stop and step of a slice over `size` elements, as slice.indices() of Python.
struct Steps {
  Steps(const Value& start_given, const Value& stop_given, const Value& step_given, int64_t size) {
    if (!step_given.is_none()) step = whole(step_given, "the step of a slice");
    if (step == 0) wrong("slice step cannot be zero");
    const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? size - 1 : size;
    const auto bounded = [&](const Value& given, int64_t otherwise) {
      if (given.is_none()) return otherwise;
      const int64_t at = whole(given, "a slice's index");
      return at < 0 ? std::max(at + size, least) : std::min(at, most);
    };
    start = bounded(start_given, step < 0 ? most : least);
    stop = bounded(stop_given, step < 0 ? least : most);
  }
  template <class Take>
  void each(Take take) const {
    for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
      take(size_t(at));
      if (__builtin_add_overflow(at, step, &at)) break;
    }
  }
  int64_t start = 0, stop = 0, step = 1;
};

Value string_slice(Heap& heap, const Text& text, const Steps& steps) {
  if (steps.step == 1) {
    if (steps.start >= steps.stop) return heap.string("", text.markup);
    const auto first = size_t(steps.start), count = size_t(steps.stop - steps.start);
    if (text.ascii()) return heap.string(text.text.substr(first, count), text.markup);
    heap.touch(text.text.size());
    const size_t from = byte_offset(text.text, first);
    return heap.string(text.text.substr(from, byte_offset(std::string_view(text.text).substr(from), count)), text.markup);
  }
  heap.expect(text.text.size() * 5);
  heap.touch(text.text.size() * 5);
  const std::u32string codes = decoded(text.text);
  std::u32string taken;
  steps.each([&](size_t at) { taken += codes[at]; });
  return heap.string(encoded(taken), text.markup);
}

// The element at an index of Python, which counts from the end if it is negative; -1: out of range.
int64_t place_of(const Value& index, int64_t size) {
  const int64_t at = index.integer() < 0 ? index.integer() + size : index.integer();
  return at < size ? std::max<int64_t>(at, -1) : -1;
}

}  // namespace

Value Machine::attribute(const Value& of, std::string_view name) {
  require_defined(of);
  if (of.is(Type::object)) {
    const auto found = of.native().attribute(*this, name);
    return found ? *found : no_attribute(heap_, of, name);
  }
  if (Value found = method(*this, of, name); !found.is_none()) return found;
  if (of.is_dict())
    if (const Value* found = of.dict().member(name)) return *found;
  return no_attribute(heap_, of, name);
}

Value Machine::item(const Value& of, const Value& index) {
  require_defined(of);
  if (of.is_dict()) {
    heap_.step(index.weight() / 16);
    const bool hashable = !index.is(Type::list) && !index.is_dict();
    if (const Value* found = hashable ? of.dict().find(index) : nullptr) return *found;
  } else if (index.is_whole()) {
    if (of.is_sequence()) {
      if (const int64_t at = place_of(index, int64_t(of.items().size())); at >= 0) return of.items()[size_t(at)];
    } else if (of.is(Type::range)) {
      if (const int64_t at = place_of(index, of.range().size()); at >= 0) return Value(of.range().start + at * of.range().step);
    } else if (of.is_string()) {
      if (const int64_t at = place_of(index, int64_t(of.string().length)); at >= 0) return slice(of, Value(at), Value(at + 1), Value());
    }
  }
  if (index.is_string()) {
    if (of.is(Type::object)) return attribute(of, index.text());
    const Value found = method(*this, of, index.text());
    return found.is_none() ? no_attribute(heap_, of, index.text()) : found;
  }
  return heap_.undefined(join(described(of), " has no element ", represented(*this, index)));
}

Value Machine::slice(const Value& of, const Value& start, const Value& stop, const Value& step) {
  require_defined(of);
  if (of.is_string()) return string_slice(heap_, of.string(), Steps(start, stop, step, int64_t(of.string().length)));
  if (of.is_sequence()) {
    std::vector<Value> taken;
    Steps(start, stop, step, int64_t(of.items().size())).each([&](size_t at) {
      heap_.step();
      taken.push_back(of.items()[at]);
    });
    return of.is(Type::list) ? heap_.list(std::move(taken)) : heap_.tuple(std::move(taken));
  }
  if (of.is(Type::range)) {
    const Range& range = of.range();
    const Steps steps(start, stop, step, range.size());
    const auto at = [&](int64_t index) { return int64_t(uint64_t(range.start) + uint64_t(index) * uint64_t(range.step)); };
    int64_t stride = 0;
    if (__builtin_mul_overflow(range.step, steps.step, &stride)) wrong("the step of a range does not fit 64 bits");
    return heap_.range(at(steps.start), at(steps.stop), stride);
  }
  wrong("'", type_name(of), "' object cannot be sliced");
}

}  // namespace weft::chat
