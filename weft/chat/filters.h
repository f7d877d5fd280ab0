// The filters of Jinja by name, in groups.
#pragma once

#include <functional>
#include <span>

#include "weft/chat/methods.h"

namespace weft::chat {

std::span<const MethodEntry> text_filters();      // text_filters.cpp
std::span<const MethodEntry> number_filters();    // number_filters.cpp
std::span<const MethodEntry> sequence_filters();  // sequence_filters.cpp
std::span<const MethodEntry> order_filters();     // order_filters.cpp

// A generator whose elements a function gives one after the other. `depth`: levels of the values that the function holds.
Value generated(Heap& heap, int depth, std::function<bool(Value& element)> next);

// The value that an `attribute` argument takes from an element: "a.b.0" goes from item to item; none is the element itself. `otherwise`
// stands for an attribute that is undefined.
class AttributeGetter {
 public:
  AttributeGetter(Machine& machine, const std::optional<Value>& attribute, bool ignore_case, std::optional<Value> otherwise = {});
  Value operator()(const Value& element) const;

 private:
  Machine* machine_;
  std::vector<Value> path_;
  bool ignore_case_;
  std::optional<Value> otherwise_;
};

}  // namespace weft::chat
