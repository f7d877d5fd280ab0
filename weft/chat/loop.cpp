#include <algorithm>

#include "weft/chat/iteration.h"
#include "weft/chat/objects.h"
#include "weft/chat/operators.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

Value cycle(Machine& machine, const Value& self, Arguments& arguments) {
  return static_cast<Loop&>(self.native()).cycle(machine, arguments);
}
Value changed(Machine& machine, const Value& self, Arguments& arguments) {
  return static_cast<Loop&>(self.native()).changed(machine, arguments);
}

}  // namespace

bool Loop::peek() {
  if (has_after) return true;
  if (rest_at < rest.size()) {
    after = rest[rest_at++];
    return has_after = true;
  }
  return elements.is(Type::iterator) && (has_after = elements.iterator().next(after));
}

bool Loop::advance() {
  if (!peek()) return false;
  before = std::move(current);
  has_before = index0 >= 0;
  current = std::move(after);
  has_after = false;
  ++index0;
  return true;
}

// Elements that nobody asks for any more are dropped: a loop that was stored elsewhere must not keep a chain of others alive.
void Loop::close() {
  elements = before = current = after = Value();
  has_before = has_after = false;
  rest.clear();
  last_changed.clear();
  statement = nullptr;
  frame.reset();
}

int64_t Loop::length(Machine& machine) {
  if (known_length >= 0) return known_length;
  Value element;
  while (elements.is(Type::iterator) && elements.iterator().next(element)) {
    machine.heap().step();
    machine.heap().expect(rest.size() * sizeof(Value));
    rest.push_back(element);
  }
  return known_length = index0 + 1 + int64_t(has_after) + int64_t(rest.size() - rest_at);
}

std::optional<Value> Loop::attribute(Machine& machine, std::string_view name) {
  Heap& heap = machine.heap();
  if (name == "index") return Value(index0 + 1);
  if (name == "index0") return Value(index0);
  if (name == "first") return Value(index0 == 0);
  if (name == "last") return Value(!peek());
  if (name == "length") return Value(length(machine));
  if (name == "revindex") return Value(length(machine) - index0);
  if (name == "revindex0") return Value(length(machine) - index0 - 1);
  if (name == "depth") return Value(depth0 + 1);
  if (name == "depth0") return Value(depth0);
  if (name == "previtem") return has_before ? before : heap.undefined("there is no previous item");
  if (name == "nextitem") return peek() ? after : heap.undefined("there is no next item");
  const bool cycles = name == "cycle";
  if (!cycles && name != "changed") return std::nullopt;
  const Value self(Type::object, shared_from_this());
  auto function = std::make_shared<Function>(std::string(name), cycles ? chat::cycle : chat::changed, self, true);
  return heap.keep(Type::object, std::move(function), sizeof(Function), 1);
}

Value Loop::call(Machine& machine, Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) wrong("loop() takes one argument, what to iterate over");
  return machine.call_loop(*this, arguments.positional[0]);
}

std::string Loop::text(Machine& machine) { return join("<LoopContext ", index0 + 1, "/", length(machine), ">"); }

Value Loop::cycle(Machine&, Arguments& arguments) {
  if (arguments.positional.empty()) wrong("no items for cycling given");
  return arguments.positional[size_t(std::max<int64_t>(index0, 0)) % arguments.positional.size()];
}

Value Loop::changed(Machine& machine, Arguments& arguments) {
  bool same = was_changed && last_changed.size() == arguments.positional.size();
  for (size_t i = 0; same && i < last_changed.size(); ++i) {
    machine.heap().step(last_changed[i].weight());
    same = equal(last_changed[i], arguments.positional[i]);
  }
  last_changed = arguments.positional;
  was_changed = true;
  return Value(!same);
}

}  // namespace weft::chat
