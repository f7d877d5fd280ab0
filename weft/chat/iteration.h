// Iterating over values as Python's for does.
#pragma once

#include "weft/chat/value.h"

namespace weft::chat {

Value iterate(Heap& heap, const Value& over);  // an iterator; throws for a value that is not iterable
bool is_iterable(const Value& value);
bool next(Heap& heap, const Value& iterator, Value& element);
std::vector<Value> collected(Heap& heap, const Value& over);

// len(): -1 for a value without one.
int64_t length_of(const Value& value);

}  // namespace weft::chat
