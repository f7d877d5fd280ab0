#include "weft/chat/iteration.h"

#include "weft/chat/native.h"
#include "weft/chat/operators.h"
#include "weft/chat/trouble.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft::chat {
namespace {

// Elements of a list, a tuple, a dict, a view, a range or a string, taken from the value one after the other.
struct Elements : Iterator {
  Elements(Heap& heap, Value over) : heap_(heap), over_(std::move(over)) {}

  bool next(Value& element) override {
    switch (over_.type()) {
      case Type::list:
      case Type::tuple:
        if (at_ >= over_.items().size()) return false;
        element = over_.items()[at_++];
        return true;
      case Type::dict: return next_entry(over_.dict(), View::Part::keys, element);
      case Type::view: return next_entry(over_.view().of.dict(), over_.view().part, element);
      case Type::range: {
        const Range& range = over_.range();
        if (int64_t(at_) >= range.size()) return false;
        element = Value(range.start + int64_t(at_++) * range.step);
        return true;
      }
      case Type::string: {
        const std::string_view rest = std::string_view(over_.text()).substr(at_);
        if (rest.empty()) return false;
        const size_t length = utf8_step(rest).length;
        element = heap_.string(std::string(rest.substr(0, length)));
        at_ += length;
        return true;
      }
      default: return false;
    }
  }

 private:
  bool next_entry(const Dict& dict, View::Part part, Value& element) {
    if (at_ >= dict.entries.size()) return false;
    const auto& [key, value] = dict.entries[at_++];
    element = part == View::Part::keys ? key : part == View::Part::values ? value : heap_.pair(key, value);
    return true;
  }

  Heap& heap_;
  Value over_;
  size_t at_ = 0;
};

}  // namespace

bool is_iterable(const Value& value) {
  switch (value.type()) {
    case Type::none:
    case Type::boolean:
    case Type::integer:
    case Type::number:
    case Type::object: return false;
    default: return true;
  }
}

Value iterate(Heap& heap, const Value& over) {
  if (over.is(Type::iterator)) return over;
  if (!is_iterable(over)) wrong("'", type_name(over), "' object is not iterable");
  return heap.keep(Type::iterator, std::make_shared<Elements>(heap, over), sizeof(Elements), over.depth() + 1);
}

bool next(Heap& heap, const Value& iterator, Value& element) {
  heap.step();
  return iterator.iterator().next(element);
}

std::vector<Value> collected(Heap& heap, const Value& over) {
  if (over.is_sequence()) {
    heap.step(int64_t(over.items().size() / 16));
    heap.expect(over.items().size() * sizeof(Value));
    return over.items();
  }
  const Value elements = iterate(heap, over);
  std::vector<Value> items;
  Value element;
  while (next(heap, elements, element)) {
    if (items.size() == items.capacity()) heap.expect((items.size() + 1) * 2 * sizeof(Value));
    items.push_back(element);
  }
  return items;
}

int64_t length_of(const Value& value) {
  switch (value.type()) {
    case Type::undefined: return 0;
    case Type::string: return int64_t(value.string().length);
    case Type::list:
    case Type::tuple: return int64_t(value.items().size());
    case Type::dict: return int64_t(value.dict().entries.size());
    case Type::view: return length_of(value.view().of);
    case Type::range: return value.range().size();
    default: return -1;
  }
}

}  // namespace weft::chat
