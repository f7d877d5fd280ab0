#include "weft/chat/operators.h"

#include <algorithm>
#include <cmath>

#include "weft/chat/iteration.h"
#include "weft/chat/text.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void unfit(Operator operation, const Value& a, const Value& b) {
  if (operation == Operator::add && a.is_string()) wrong("can only concatenate str (not \"", type_name(b), "\") to str");
  wrong("unsupported operand type(s) for ", kSymbols[size_t(operation)], ": '", type_name(a), "' and '", type_name(b), "'");
}

[[noreturn]] void overflow() { wrong("an integer does not fit 64 bits"); }

Value floor_divided(int64_t a, int64_t b) {
  if (b == 0) wrong("integer division or modulo by zero");
  if (a == INT64_MIN && b == -1) overflow();
  return Value(a / b - int64_t(a % b != 0 && (a < 0) != (b < 0)));
}

Value modulo(int64_t a, int64_t b) {
  if (b == 0) wrong("integer modulo by zero");
  if (b == -1) return Value(int64_t(0));
  const int64_t rest = a % b;
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) wrong("0.0 cannot be raised to a negative power");
    return Value(std::pow(double(base), double(exponent)));
  }
  if (base == 0 || base == 1 || exponent == 0) return Value(exponent == 0 ? int64_t(1) : base);
  if (base == -1) return Value(int64_t(exponent % 2 ? -1 : 1));
  if (exponent > 63) overflow();
  int64_t result = 1;
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) overflow();
  return Value(result);
}

Value operate_whole(Operator operation, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (operation) {
    case Operator::add:
      if (__builtin_add_overflow(a, b, &result)) overflow();
      return Value(result);
    case Operator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) overflow();
      return Value(result);
    case Operator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) overflow();
      return Value(result);
    case Operator::divide:
      if (b == 0) wrong("division by zero");
      return Value(double(a) / double(b));
    case Operator::floor_divide: return floor_divided(a, b);
    case Operator::modulo: return modulo(a, b);
    case Operator::power: return power(a, b);
  }
  overflow();
}

double float_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (b < 0) != (rest < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

double float_floor_divided(double a, double b) {
  const double rest = float_modulo(a, b), quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value float_power(double a, double b) {
  if (a == 0 && b < 0) wrong("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(b) && b != std::floor(b)) not_supported("complex numbers");
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) wrong("(34, 'Numerical result out of range')");
  return Value(result);
}

Value operate_float(Operator operation, double a, double b) {
  switch (operation) {
    case Operator::add: return Value(a + b);
    case Operator::subtract: return Value(a - b);
    case Operator::multiply: return Value(a * b);
    case Operator::power: return float_power(a, b);
    default: break;
  }
  if (b == 0) wrong(operation == Operator::divide ? "float division by zero" : "float floor division by zero");
  if (operation == Operator::divide) return Value(a / b);
  return Value(operation == Operator::modulo ? float_modulo(a, b) : float_floor_divided(a, b));
}

// A markup string escapes what is added to it.
Value add_strings(Heap& heap, const Text& a, const Text& b) {
  heap.expect(a.text.size() + b.text.size());
  if (!a.markup && !b.markup) return heap.string(a.text + b.text);
  return heap.string((a.markup ? a.text : escaped_html(a.text)) + (b.markup ? b.text : escaped_html(b.text)), true);
}

Value add_lists(Heap& heap, const Value& a, const Value& b) {
  heap.expect((a.items().size() + b.items().size()) * sizeof(Value));
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is(Type::list) ? heap.list(std::move(items)) : heap.tuple(std::move(items));
}

Value repeated(Heap& heap, const Value& of, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const size_t size = of.is_string() ? of.text().size() : of.items().size() * sizeof(Value);
  if (size == 0) times = 0;
  if (times > 0 && size_t(times) > SIZE_MAX / 2 / size) heap.expect(SIZE_MAX / 2);
  heap.expect(size * size_t(times));
  heap.touch(size * size_t(times));
  if (of.is_string()) {
    std::string text;
    text.reserve(size * size_t(times));
    for (int64_t i = 0; i < times; ++i) text += of.text();
    return heap.string(std::move(text), of.string().markup);
  }
  std::vector<Value> items;
  items.reserve(of.items().size() * size_t(times));
  for (int64_t i = 0; i < times; ++i) items.insert(items.end(), of.items().begin(), of.items().end());
  return of.is(Type::list) ? heap.list(std::move(items)) : heap.tuple(std::move(items));
}

bool repeatable(const Value& value) { return value.is_string() || value.is_sequence(); }

// Sign of whole - number, exact where a double would round the integer.
int compare_whole_with(double number, int64_t whole) {
  if (number >= 0x1p63) return -1;
  if (number < -0x1p63) return 1;
  const auto cut = int64_t(std::trunc(number));
  if (whole != cut) return whole < cut ? -1 : 1;
  const double fraction = number - std::trunc(number);
  return fraction > 0 ? -1 : fraction < 0 ? 1 : 0;
}

bool less_numbers(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return a.integer() < b.integer();
  if (!a.is_whole() && !b.is_whole()) return a.number() < b.number();
  if (std::isnan(a.number()) || std::isnan(b.number())) return false;
  return a.is_whole() ? compare_whole_with(b.number(), a.integer()) < 0 : compare_whole_with(a.number(), b.integer()) > 0;
}

[[noreturn]] void unordered(std::string_view symbol, const Value& a, const Value& b) {
  wrong("'", symbol, "' not supported between instances of '", type_name(a), "' and '", type_name(b), "'");
}

// a < b, or a <= b if `or_equal`.
bool ordered(Heap& heap, const Value& a, const Value& b, bool or_equal, std::string_view symbol) {
  if (a.is_numeric() && b.is_numeric()) return less_numbers(a, b) || (or_equal && equal(a, b));
  if (a.is_string() && b.is_string()) return or_equal ? a.text() <= b.text() : a.text() < b.text();
  if (!a.is_sequence() || a.type() != b.type()) unordered(symbol, a, b);
  const auto &left = a.items(), &right = b.items();
  for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
    heap.step(left[i].weight());
    if (!equal(left[i], right[i])) return ordered(heap, left[i], right[i], or_equal, symbol);
  }
  return or_equal ? left.size() <= right.size() : left.size() < right.size();
}

}  // namespace

void require_defined(const Value& value) {
  if (value.is_undefined()) wrong(value.missing() ? value.missing()->message : "a value is undefined");
}

Value operate(Heap& heap, Operator operation, const Value& a, const Value& b) {
  require_defined(a);
  require_defined(b);
  if (a.is_whole() && b.is_whole()) return operate_whole(operation, a.integer(), b.integer());
  if (a.is_numeric() && b.is_numeric()) return operate_float(operation, a.number(), b.number());
  if (operation == Operator::add) {
    if (a.is_string() && b.is_string()) return add_strings(heap, a.string(), b.string());
    if (a.is_sequence() && a.type() == b.type()) return add_lists(heap, a, b);
  }
  if (operation == Operator::multiply) {
    if (repeatable(a) && b.is_whole()) return repeated(heap, a, b.integer());
    if (repeatable(b) && a.is_whole()) return repeated(heap, b, a.integer());
  }
  unfit(operation, a, b);
}

Value negated(const Value& value) {
  require_defined(value);
  if (value.is(Type::number)) return Value(-value.number());
  if (!value.is_whole()) wrong("bad operand type for unary -: '", type_name(value), "'");
  if (value.integer() == INT64_MIN) overflow();
  return Value(-value.integer());
}

bool less(Heap& heap, const Value& a, const Value& b) {
  require_defined(a);
  require_defined(b);
  return ordered(heap, a, b, false, "<");
}

bool contains(Heap& heap, const Value& container, const Value& value) {
  switch (container.type()) {
    case Type::undefined: return false;
    case Type::string:
      if (!value.is_string()) wrong("'in <string>' requires string as left operand, not ", type_name(value));
      heap.touch(container.text().size());
      return container.text().find(value.text()) != std::string::npos;
    case Type::dict:
      heap.step(value.weight());
      hash_of(value);  // throws for a value that cannot be a key
      return container.dict().find(value) != nullptr;
    default: break;
  }
  if (!is_iterable(container)) wrong("argument of type '", type_name(container), "' is not iterable");
  const Value elements = iterate(heap, container);
  Value element;
  while (next(heap, elements, element)) {
    heap.step(std::min(value.weight(), element.weight()));
    if (equal(element, value)) return true;
  }
  return false;
}

bool related(Heap& heap, Relation relation, const Value& a, const Value& b) {
  if (relation == Relation::in) return contains(heap, b, a);
  if (relation == Relation::not_in) return !contains(heap, b, a);
  if (relation == Relation::equal || relation == Relation::unequal) {
    heap.step(std::min(a.weight(), b.weight()));
    return equal(a, b) == (relation == Relation::equal);
  }
  require_defined(a);
  require_defined(b);
  switch (relation) {
    case Relation::less: return ordered(heap, a, b, false, "<");
    case Relation::less_equal: return ordered(heap, a, b, true, "<=");
    case Relation::greater: return ordered(heap, b, a, false, ">");
    default: return ordered(heap, b, a, true, ">=");
  }
}

int64_t whole(const Value& value, std::string_view what) {
  require_defined(value);
  if (!value.is_whole()) wrong(what, " must be an integer, not '", type_name(value), "'");
  return value.integer();
}

const std::string& text(const Value& value, std::string_view what) {
  require_defined(value);
  if (!value.is_string()) wrong(what, " must be a string, not '", type_name(value), "'");
  return value.text();
}

}  // namespace weft::chat
