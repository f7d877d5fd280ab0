#include <algorithm>

#include "weft/chat/text.h"
#include "weft/chat/trouble.h"
#include "weft/chat/value.h"

namespace weft::chat {
namespace {

constexpr size_t kObject = 64;      // an object with its reference counts
constexpr size_t kIndexed = 8;      // entries from which a dict has an index: a search through fewer is as fast
constexpr size_t kIndexEntry = 48;  // a node of the index with its bucket

int deepest(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

size_t weight_of(const std::vector<Value>& items) {
  size_t weight = 1;
  for (const Value& item : items) weight += size_t(item.weight());
  return weight;
}

// Merges entries with equal keys: the first one's place, the last one's value.
void merge(std::vector<Dict::Entry>& entries, std::unordered_multimap<size_t, uint32_t>& index) {
  std::vector<Dict::Entry> merged;
  merged.reserve(entries.size());
  for (auto& [key, value] : entries) {
    const size_t hash = hash_of(key);
    const auto [first, last] = index.equal_range(hash);
    const auto same = std::find_if(first, last, [&](const auto& at) { return equal(merged[at.second].first, key); });
    if (same != last) {
      merged[same->second].second = std::move(value);
      continue;
    }
    index.emplace(hash, uint32_t(merged.size()));
    merged.emplace_back(std::move(key), std::move(value));
  }
  entries = std::move(merged);
  if (entries.size() < kIndexed) index.clear();
}

}  // namespace

Object::~Object() {
  if (heap) heap->release(bytes);
}

void Heap::expect(size_t bytes) const {
  if (limits_ && (bytes > limits_->memory_bytes || live_ > limits_->memory_bytes - bytes))
    exceeded("the template needs more than ", limits_->memory_bytes >> 20, " MiB for its values");
}

void Heap::step(int64_t steps) {
  if (!limits_) return;
  steps_ += steps;
  if (steps_ > limits_->steps) exceeded("the template takes more than ", limits_->steps, " steps; does it loop for ever?");
}

void Heap::count(Object& object, size_t bytes) {
  if (!limits_) return;
  expect(bytes + kObject);
  object.heap = this;
  object.bytes = bytes + kObject;
  live_ += object.bytes;
}

Value Heap::keep(Type type, std::shared_ptr<Object> object, size_t bytes, int depth) {
  if (depth > kValueDepth) exceeded("the template nests values more than ", kValueDepth, " levels deep");
  if (object->weight > kValueWeight) exceeded("the template makes a value of more than ", kValueWeight, " elements");
  object->depth = depth;
  count(*object, bytes);
  return Value(type, std::move(object));
}

Value Heap::string(std::string text, bool markup) {
  touch(text.size());
  auto object = std::make_shared<Text>();
  object->length = code_points(text);
  object->weight = 1 + text.size() / 64;
  object->text = std::move(text);
  object->markup = markup;
  const size_t bytes = object->text.capacity() + sizeof(Text);
  return keep(Type::string, std::move(object), bytes, 0);
}

Value Heap::sequence(Type type, std::vector<Value> items) {
  step(int64_t(items.size() / 16));
  const int depth = deepest(items) + 1;
  auto object = std::make_shared<List>();
  object->weight = weight_of(items);
  object->items = std::move(items);
  const size_t bytes = object->items.capacity() * sizeof(Value);
  return keep(type, std::move(object), bytes, depth);
}

Value Heap::list(std::vector<Value> items) { return sequence(Type::list, std::move(items)); }
Value Heap::tuple(std::vector<Value> items) { return sequence(Type::tuple, std::move(items)); }

Value Heap::pair(Value first, Value second) {
  std::vector<Value> items;
  items.reserve(2);
  items.push_back(std::move(first));
  items.push_back(std::move(second));
  return tuple(std::move(items));
}

Value Heap::dict(std::vector<Dict::Entry> entries) {
  step(int64_t(entries.size()));
  auto object = std::make_shared<Dict>();
  merge(entries, object->index);
  int depth = 0;
  for (const auto& [key, value] : entries) {
    depth = std::max({depth, key.depth(), value.depth()});
    object->weight += size_t(key.weight() + value.weight());
    step(key.weight() / 16);
  }
  object->entries = std::move(entries);
  const size_t bytes = object->entries.capacity() * sizeof(Dict::Entry) + object->index.size() * kIndexEntry;
  return keep(Type::dict, std::move(object), bytes, depth + 1);
}

Value Heap::range(int64_t start, int64_t stop, int64_t step) {
  auto object = std::make_shared<Range>();
  object->start = start, object->stop = stop, object->step = step;
  return keep(Type::range, std::move(object), 0, 0);
}

Value Heap::view(Value of, View::Part part) {
  auto object = std::make_shared<View>();
  const int depth = of.depth() + 1;
  object->weight = size_t(of.weight());
  object->of = std::move(of);
  object->part = part;
  return keep(Type::view, std::move(object), 0, depth);
}

Value Heap::undefined(std::string message) {
  auto object = std::make_shared<Missing>();
  object->message = std::move(message);
  const size_t bytes = object->message.capacity();
  return keep(Type::undefined, std::move(object), bytes, 0);
}

}  // namespace weft::chat
