// Python's operators on values, and what they say about types that do not fit.
#pragma once

#include "weft/chat/syntax.h"
#include "weft/chat/value.h"

namespace weft::chat {

void require_defined(const Value& value);  // throws the reason why it is undefined

Value operate(Heap& heap, Operator operation, const Value& a, const Value& b);
Value negated(const Value& value);
bool related(Heap& heap, Relation relation, const Value& a, const Value& b);
bool less(Heap& heap, const Value& a, const Value& b);
bool contains(Heap& heap, const Value& container, const Value& value);

int64_t whole(const Value& value, std::string_view what);  // an int or a bool; throws and names what was expected
const std::string& text(const Value& value, std::string_view what);

}  // namespace weft::chat
