// Values of a template, with the semantics of Python: immutable, shared by reference, strings indexed by code point, dicts in insertion
// order. A heap makes them, counts their bytes while they live and bounds their depth, so that every recursion over a value is bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/chat/limits.h"

namespace weft::chat {

enum class Type : uint8_t { undefined, none, boolean, integer, number, string, list, tuple, dict, range, view, iterator, object };

class Heap;

// Base of everything that a value refers to. Its bytes return to the heap with it.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object();

  Heap* heap = nullptr;  // nullptr: not counted
  size_t bytes = 0;
  int depth = 0;      // levels of values inside this one
  size_t weight = 1;  // values inside this one, each as often as it occurs: what it costs to compare or to hash it
};

struct Text : Object {
  std::string text;     // UTF-8
  size_t length = 0;    // in code points
  bool markup = false;  // from |safe or |escape: `+` escapes what is added to it

  bool ascii() const { return length == text.size(); }
};

// Why a value is undefined; an operation that needs a value reports it.
struct Missing : Object {
  std::string message;
};

struct List;
struct Dict;
struct Range;
struct View;
struct Iterator;
struct Native;

class Value {
 public:
  Value() = default;  // None
  Value(bool value) : type_(Type::boolean), integer_(value) {}
  Value(int64_t value) : type_(Type::integer), integer_(value) {}
  Value(int value) : Value(int64_t(value)) {}
  Value(size_t value) : Value(int64_t(value)) {}
  Value(double value) : type_(Type::number), number_(value) {}
  Value(const char*) = delete;
  Value(Type type, std::shared_ptr<const Object> object) : type_(type), object_(std::move(object)) {}

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_none() const { return type_ == Type::none; }
  bool is_undefined() const { return type_ == Type::undefined; }
  bool is_string() const { return type_ == Type::string; }
  bool is_sequence() const { return type_ == Type::list || type_ == Type::tuple; }
  bool is_dict() const { return type_ == Type::dict; }
  bool is_whole() const { return type_ == Type::integer || type_ == Type::boolean; }  // an int of Python: bool is one
  bool is_numeric() const { return is_whole() || type_ == Type::number; }

  bool boolean() const { return integer_ != 0; }
  int64_t integer() const { return integer_; }                                          // of integer and boolean
  double number() const { return type_ == Type::number ? number_ : double(integer_); }  // of any numeric value
  const Text& string() const { return static_cast<const Text&>(*object_); }
  const std::string& text() const { return string().text; }
  const std::vector<Value>& items() const;  // of list and tuple
  const Dict& dict() const;
  const Range& range() const;
  const View& view() const;
  Iterator& iterator() const;
  Native& native() const;
  const Missing* missing() const { return static_cast<const Missing*>(object_.get()); }  // nullptr: no reason known
  const Object* object() const { return object_.get(); }
  int depth() const { return object_ ? object_->depth : 0; }
  int64_t weight() const { return object_ ? int64_t(object_->weight) : 1; }

 private:
  Type type_ = Type::none;
  union {
    int64_t integer_ = 0;
    double number_;
  };
  std::shared_ptr<const Object> object_;
};

struct List : Object {
  std::vector<Value> items;
};

struct Dict : Object {
  using Entry = std::pair<Value, Value>;
  std::vector<Entry> entries;
  std::unordered_multimap<size_t, uint32_t> index;  // by hash; empty for a small dict

  const Value* find(const Value& key) const;  // the key must be hashable
  const Value* member(std::string_view key) const;
};

struct Range : Object {
  int64_t start = 0, stop = 0, step = 1;
  int64_t size() const;
};

// keys(), values() or items() of a dict.
struct View : Object {
  enum class Part { keys, values, items };
  Value of;
  Part part = Part::keys;
};

// A generator of Python: elements once, one after the other.
struct Iterator : Object {
  virtual bool next(Value& element) = 0;  // false: no more
};

// Makes values and counts them.
class Heap {
 public:
  Heap() = default;  // counts nothing
  explicit Heap(const TemplateLimits& limits) : limits_(&limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Value string(std::string text, bool markup = false);
  Value list(std::vector<Value> items);
  Value tuple(std::vector<Value> items);
  Value pair(Value first, Value second);
  Value dict(std::vector<Dict::Entry> entries);  // a later entry replaces the value of an equal key; keys must be hashable
  Value range(int64_t start, int64_t stop, int64_t step);
  Value view(Value of, View::Part part);
  Value undefined(std::string message);
  void count(Object& object, size_t bytes);  // until the object is destroyed
  // A value of an object that was just made, counted, with the levels of values in it.
  Value keep(Type type, std::shared_ptr<Object> object, size_t bytes, int depth);

  void expect(size_t bytes) const;  // throws if so many bytes more would exceed the limit; call it before a large allocation
  void step(int64_t steps = 1);     // throws if the template has used up its steps
  void touch(size_t bytes) { step(int64_t(bytes / 64) + 1); }
  void release(size_t bytes) { live_ -= bytes; }

 private:
  Value sequence(Type type, std::vector<Value> items);

  const TemplateLimits* limits_ = nullptr;
  size_t live_ = 0;
  int64_t steps_ = 0;
};

// Python's hash and ==; hash throws for a list or a dict ("unhashable type"). They visit weight() values: charge them to the heap.
size_t hash_of(const Value& value);
bool equal(const Value& a, const Value& b);
bool truthy(const Value& value);

std::string_view type_name(const Value& value);  // as in messages of Python: "str", "NoneType"
std::string described(const Value& value);       // as in messages of Jinja: "dict object", "None"

}  // namespace weft::chat
