#include "weft/chat/value.h"

#include <cmath>
#include <functional>

#include "weft/chat/native.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

// Exact for every pair: a double near 2^63 must not meet an integer that was rounded.
bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return a.integer() == b.integer();
  if (!a.is_whole() && !b.is_whole()) return a.number() == b.number();
  const double number = a.is_whole() ? b.number() : a.number();
  const int64_t whole = a.is_whole() ? a.integer() : b.integer();
  return number >= -0x1p63 && number < 0x1p63 && std::trunc(number) == number && int64_t(number) == whole;
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (!other || !equal(value, *other)) return false;
  }
  return true;
}

bool equal_lists(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

bool equal_ranges(const Range& a, const Range& b) {
  return a.size() == b.size() && (a.size() == 0 || (a.start == b.start && (a.size() == 1 || a.step == b.step)));
}

}  // namespace

const std::vector<Value>& Value::items() const { return static_cast<const List&>(*object_).items; }
const Dict& Value::dict() const { return static_cast<const Dict&>(*object_); }
const Range& Value::range() const { return static_cast<const Range&>(*object_); }
const View& Value::view() const { return static_cast<const View&>(*object_); }
Iterator& Value::iterator() const { return const_cast<Iterator&>(static_cast<const Iterator&>(*object_)); }
Native& Value::native() const { return const_cast<Native&>(static_cast<const Native&>(*object_)); }

int64_t Range::size() const {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto distance = step > 0 ? uint64_t(stop) - uint64_t(start) : uint64_t(start) - uint64_t(stop);
  const auto stride = step > 0 ? uint64_t(step) : uint64_t(0) - uint64_t(step);
  return int64_t((distance - 1) / stride) + 1;
}

const Value* Dict::find(const Value& key) const {
  if (index.empty()) {
    for (const auto& [name, value] : entries)
      if (equal(name, key)) return &value;
    return nullptr;
  }
  const auto [first, last] = index.equal_range(hash_of(key));
  for (auto at = first; at != last; ++at)
    if (equal(entries[at->second].first, key)) return &entries[at->second].second;
  return nullptr;
}

const Value* Dict::member(std::string_view key) const {
  if (index.empty()) {
    for (const auto& [name, value] : entries)
      if (name.is_string() && name.text() == key) return &value;
    return nullptr;
  }
  const auto [first, last] = index.equal_range(std::hash<std::string_view>()(key));
  for (auto at = first; at != last; ++at) {
    const Value& name = entries[at->second].first;
    if (name.is_string() && name.text() == key) return &entries[at->second].second;
  }
  return nullptr;
}

size_t hash_of(const Value& value) {
  switch (value.type()) {
    case Type::none:
    case Type::undefined: return 0x9e3779b9;
    case Type::boolean:
    case Type::integer: return std::hash<double>()(value.number());
    case Type::number: return std::hash<double>()(value.number());
    case Type::string: return std::hash<std::string_view>()(value.text());
    case Type::tuple: {
      size_t hash = 0x345678;
      for (const Value& item : value.items()) hash = hash * 1000003 ^ hash_of(item);
      return hash;
    }
    case Type::list:
    case Type::dict: wrong("unhashable type: '", type_name(value), "'");
    default: return std::hash<const void*>()(value.object());
  }
}

bool equal(const Value& a, const Value& b) {
  if (a.is_numeric() && b.is_numeric()) return equal_numbers(a, b);
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::undefined:
    case Type::none: return true;
    case Type::string: return a.text() == b.text();
    case Type::list:
    case Type::tuple: return a.object() == b.object() || equal_lists(a.items(), b.items());
    case Type::dict: return a.object() == b.object() || equal_dicts(a.dict(), b.dict());
    case Type::range: return equal_ranges(a.range(), b.range());
    default: return a.object() == b.object();
  }
}

bool truthy(const Value& value) {
  switch (value.type()) {
    case Type::undefined:
    case Type::none: return false;
    case Type::boolean:
    case Type::integer: return value.integer() != 0;
    case Type::number: return value.number() != 0;
    case Type::string: return !value.text().empty();
    case Type::list:
    case Type::tuple: return !value.items().empty();
    case Type::dict: return !value.dict().entries.empty();
    case Type::range: return value.range().size() != 0;
    case Type::view: return truthy(value.view().of);
    case Type::iterator:
    case Type::object: return true;
  }
  return true;
}

std::string_view type_name(const Value& value) {
  switch (value.type()) {
    case Type::undefined: return "Undefined";
    case Type::none: return "NoneType";
    case Type::boolean: return "bool";
    case Type::integer: return "int";
    case Type::number: return "float";
    case Type::string: return value.string().markup ? "Markup" : "str";
    case Type::list: return "list";
    case Type::tuple: return "tuple";
    case Type::dict: return "dict";
    case Type::range: return "range";
    case Type::view: {
      const auto part = value.view().part;
      return part == View::Part::keys ? "dict_keys" : part == View::Part::values ? "dict_values" : "dict_items";
    }
    case Type::iterator: return "generator";
    case Type::object: return value.native().type_name();
  }
  return "object";
}

std::string described(const Value& value) {
  if (value.is_none()) return "None";
  return std::string(type_name(value)) + " object";
}

}  // namespace weft::chat
