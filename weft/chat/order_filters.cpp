// Filters that compare elements: sort, unique, min, max, sum, groupby, dictsort.
#include <algorithm>
#include <unordered_map>

#include "weft/chat/filters.h"
#include "weft/chat/iteration.h"
#include "weft/chat/machine.h"
#include "weft/chat/merge_sort.h"
#include "weft/chat/operators.h"
#include "weft/chat/text.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

bool flag(const std::optional<Value>& given) { return given && truthy(*given); }

Value lower_if_text(Heap& heap, const Value& value) { return value.is_string() ? heap.string(lower(value.text())) : value; }

struct Keyed {
  Value key, element;
};

// Stable, with Python's <; equal elements keep their order in reverse too.
void sort_by_key(Heap& heap, std::vector<Keyed>& all, bool reverse) {
  heap.expect(all.size() * sizeof(Keyed));
  merge_sort(all, [&](const Keyed& a, const Keyed& b) {
    heap.step(2);
    return reverse ? less(heap, b.key, a.key) : less(heap, a.key, b.key);
  });
}

std::vector<Value> elements_of(std::vector<Keyed>& all) {
  std::vector<Value> elements;
  elements.reserve(all.size());
  for (Keyed& keyed : all) elements.push_back(std::move(keyed.element));
  return elements;
}

Value sort(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter sort", {"reverse", "case_sensitive", "attribute"});
  Heap& heap = machine.heap();
  std::vector<AttributeGetter> getters;  // "a,b" sorts by several attributes
  if (bound[2] && bound[2]->is_string()) {
    const std::string& names = bound[2]->text();
    for (size_t at = 0; at <= names.size();) {
      const size_t end = std::min(names.find(',', at), names.size());
      getters.emplace_back(machine, heap.string(names.substr(at, end - at)), !flag(bound[1]));
      at = end + 1;
    }
  } else {
    getters.emplace_back(machine, bound[2], !flag(bound[1]));
  }
  std::vector<Keyed> all;
  for (const Value& element : collected(heap, value)) {
    std::vector<Value> keys;
    for (const AttributeGetter& getter : getters) keys.push_back(getter(element));
    all.push_back({heap.list(std::move(keys)), element});  // a list even of one: its comparison looks for == first
  }
  sort_by_key(heap, all, flag(bound[0]));
  return heap.list(elements_of(all));
}

Value dict_sort(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter dictsort", {"case_sensitive", "by", "reverse"});
  Heap& heap = machine.heap();
  const std::string by = bound[1] ? text(*bound[1], "the filter dictsort") : "key";
  if (by != "key" && by != "value") wrong("You can only sort by either \"key\" or \"value\"");
  require_defined(value);
  if (!value.is_dict()) wrong("'", type_name(value), "' object has no attribute 'items'");
  std::vector<Keyed> all;
  for (const auto& [key, member] : value.dict().entries) {
    const Value& by_value = by == "key" ? key : member;
    all.push_back({flag(bound[0]) ? by_value : lower_if_text(heap, by_value), heap.pair(key, member)});
  }
  sort_by_key(heap, all, flag(bound[2]));
  return heap.list(elements_of(all));
}

template <bool smallest>
Value extreme(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter min or max", {"case_sensitive", "attribute"});
  Heap& heap = machine.heap();
  const AttributeGetter getter(machine, bound[1], !flag(bound[0]));
  const Value elements = iterate(heap, value);
  Value element, best, best_key;
  bool any = false;
  while (next(heap, elements, element)) {
    const Value key = getter(element);
    if (any && !(smallest ? less(heap, key, best_key) : less(heap, best_key, key))) continue;
    best = element, best_key = key;
    any = true;
  }
  return any ? best : heap.undefined("No aggregated item, sequence was empty.");
}

Value unique(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter unique", {"case_sensitive", "attribute"});
  Heap& heap = machine.heap();
  const AttributeGetter getter(machine, bound[1], !flag(bound[0]));
  std::unordered_multimap<size_t, Value> seen;
  std::vector<Value> kept;
  const Value elements = iterate(heap, value);
  Value element;
  while (next(heap, elements, element)) {
    const Value key = getter(element);
    heap.step(key.weight());
    const size_t hash = hash_of(key);
    const auto [first, last] = seen.equal_range(hash);
    if (std::any_of(first, last, [&](const auto& entry) { return equal(entry.second, key); })) continue;
    heap.expect(seen.size() * 100);
    seen.emplace(hash, key);
    kept.push_back(element);
  }
  return iterate(heap, heap.list(std::move(kept)));
}

Value group_by(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter groupby", {"attribute", "default", "case_sensitive"}, 1);
  Heap& heap = machine.heap();
  const AttributeGetter getter(machine, bound[0], !flag(bound[2]), bound[1]), plain(machine, bound[0], false, bound[1]);
  std::vector<Keyed> all;
  for (const Value& element : collected(heap, value)) all.push_back({getter(element), element});
  sort_by_key(heap, all, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < all.size();) {
    std::vector<Value> members;
    const size_t first = i;
    for (; i < all.size() && equal(all[i].key, all[first].key); ++i) {
      heap.step(all[i].key.weight());
      members.push_back(all[i].element);
    }
    groups.push_back(heap.pair(plain(all[first].element), heap.list(std::move(members))));
  }
  return heap.list(std::move(groups));
}

Value sum(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter sum", {"attribute", "start"});
  Heap& heap = machine.heap();
  const AttributeGetter getter(machine, bound[0], false);
  Value total = bound[1].value_or(Value(0));
  if (total.is_string()) wrong("sum() can't sum strings [use ''.join(seq) instead]");
  const Value elements = iterate(heap, value);
  Value element;
  while (next(heap, elements, element)) total = operate(heap, Operator::add, total, getter(element));
  return total;
}

constexpr MethodEntry kFilters[] = {
    {"sort", sort},     {"dictsort", dict_sort}, {"min", extreme<true>}, {"max", extreme<false>},
    {"unique", unique}, {"groupby", group_by},   {"sum", sum},
};

}  // namespace

std::span<const MethodEntry> order_filters() { return kFilters; }

AttributeGetter::AttributeGetter(Machine& machine, const std::optional<Value>& attribute, bool ignore_case, std::optional<Value> otherwise)
    : machine_(&machine), ignore_case_(ignore_case), otherwise_(std::move(otherwise)) {
  if (!attribute || attribute->is_none()) return;
  if (!attribute->is_string()) {
    path_.push_back(*attribute);
    return;
  }
  const std::string& names = attribute->text();
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find('.', at), names.size());
    const std::string name = names.substr(at, end - at);
    const bool digits = !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == name.npos;
    path_.push_back(digits ? Value(std::stoi(name)) : machine.heap().string(name));
    at = end + 1;
  }
}

Value AttributeGetter::operator()(const Value& element) const {
  Value value = element;
  for (const Value& part : path_) {
    value = machine_->item(value, part);
    if (otherwise_ && !otherwise_->is_none() && value.is_undefined()) value = *otherwise_;
  }
  return ignore_case_ ? lower_if_text(machine_->heap(), value) : value;
}

}  // namespace weft::chat
