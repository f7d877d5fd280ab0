#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "weft/chat/filters.h"
#include "weft/chat/machine.h"
#include "weft/chat/operators.h"
#include "weft/chat/text.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

// Digits with single underscores between them, without the underscores; nullopt if an underscore stands elsewhere.
std::optional<std::string> plain_digits(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || i + 1 == text.size() || !std::isalnum((unsigned char)text[i - 1]) || !std::isalnum((unsigned char)text[i + 1])) {
      return std::nullopt;
    }
  }
  return digits;
}

// int(text, base).
std::optional<int64_t> parsed_integer(std::string_view text, int64_t base) {
  text = stripped(text, std::nullopt);
  const bool negative = text.starts_with("-");
  if (negative || text.starts_with("+")) text.remove_prefix(1);
  const char prefix = text.size() > 1 && text[0] == '0' ? char(text[1] | 0x20) : ' ';
  const int named = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
  if (named && (base == named || base == 0)) {
    text.remove_prefix(2);
    if (text.starts_with("_")) text.remove_prefix(1);
    base = named;
  } else if (base == 0) {
    base = 10;
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != text.npos) return std::nullopt;
  }
  const auto digits = plain_digits(text);
  if (!digits || digits->empty() || base < 2 || base > 36) return std::nullopt;
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), magnitude, int(base));
  if (end != digits->data() + digits->size()) return std::nullopt;
  if (error != std::errc() || magnitude > uint64_t(INT64_MAX)) wrong("an integer does not fit 64 bits");
  return negative ? -int64_t(magnitude) : int64_t(magnitude);
}

// float(text).
std::optional<double> parsed_float(std::string_view text) {
  const auto digits = plain_digits(stripped(text, std::nullopt));
  if (!digits || digits->empty()) return std::nullopt;
  const std::string word = lower(*digits);
  const std::string_view unsigned_word = std::string_view(word).substr(word[0] == '-' || word[0] == '+');
  const double sign = word[0] == '-' ? -1 : 1;
  if (unsigned_word == "inf" || unsigned_word == "infinity") return sign * HUGE_VAL;
  if (unsigned_word == "nan") return std::nan("");
  if (word.find_first_not_of("0123456789+-.e") != word.npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  return end == word.c_str() + word.size() ? std::optional(value) : std::nullopt;
}

int64_t truncated(double number) {
  if (std::isnan(number)) wrong("cannot convert float NaN to integer");
  if (std::isinf(number)) wrong("cannot convert float infinity to integer");
  if (std::abs(number) >= 0x1p63) wrong("an integer does not fit 64 bits");
  return int64_t(number);
}

Value to_int(Machine&, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter int", {"default", "base"});
  const Value otherwise = bound[0].value_or(Value(0));
  require_defined(value);
  if (value.is_whole()) return Value(value.integer());
  if (value.is(Type::number)) return std::isnan(value.number()) ? otherwise : Value(truncated(value.number()));
  if (!value.is_string()) return otherwise;
  if (const auto parsed = parsed_integer(value.text(), bound[1] ? whole(*bound[1], "the filter int") : 10)) return Value(*parsed);
  const auto number = parsed_float(value.text());
  return number && std::isfinite(*number) ? Value(truncated(*number)) : otherwise;
}

Value to_float(Machine&, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter float", {"default"});
  require_defined(value);
  if (value.is_numeric()) return Value(value.number());
  const auto number = value.is_string() ? parsed_float(value.text()) : std::nullopt;
  return number ? Value(*number) : bound[0].value_or(Value(0.0));
}

Value absolute(Machine&, const Value& value, Arguments& arguments) {
  bind(arguments, "the filter abs", {});
  require_defined(value);
  if (!value.is_numeric()) wrong("bad operand type for abs(): '", type_name(value), "'");
  if (value.is(Type::number)) return Value(std::abs(value.number()));
  return value.integer() < 0 ? negated(value) : Value(value.integer());
}

// round() of an integer to tens, hundreds ...: half to even.
int64_t rounded(int64_t value, int64_t precision) {
  if (precision >= 0) return value;
  if (precision < -18) return 0;
  int64_t unit = 1;
  for (; precision < 0; ++precision) unit *= 10;
  int64_t quotient = value / unit;
  const int64_t rest = std::abs(value % unit), half = unit / 2;
  if (rest > half || (rest == half && quotient % 2 != 0)) quotient += value < 0 ? -1 : 1;
  int64_t result = 0;
  if (__builtin_mul_overflow(quotient, unit, &result)) wrong("an integer does not fit 64 bits");
  return result;
}

// round() of a float: printf rounds the exact binary value half to even, as Python does.
double rounded(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 320) return value;
  if (precision < 0) {
    if (precision < -308) return value * 0.0;
    const double unit = std::pow(10.0, double(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[700];
  std::snprintf(buffer, sizeof(buffer), "%.*f", int(precision), value);
  return std::strtod(buffer, nullptr);
}

Value round(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the filter round", {"precision", "method"});
  const int64_t precision = bound[0] ? whole(*bound[0], "the filter round") : 0;
  const std::string method = bound[1] ? text(*bound[1], "the filter round") : "common";
  require_defined(value);
  if (method != "common" && method != "ceil" && method != "floor") wrong("the method of the filter round must be common, ceil or floor");
  if (!value.is_numeric()) wrong("type ", type_name(value), " doesn't define __round__ method");
  if (method == "common") return value.is_whole() ? Value(rounded(value.integer(), precision)) : Value(rounded(value.number(), precision));
  Heap& heap = machine.heap();
  const Value unit = operate(heap, Operator::power, Value(10), Value(precision));
  const double scaled = operate(heap, Operator::multiply, value, unit).number();
  return operate(heap, Operator::divide, Value(truncated(method == "ceil" ? std::ceil(scaled) : std::floor(scaled))), unit);
}

constexpr MethodEntry kFilters[] = {{"int", to_int}, {"float", to_float}, {"abs", absolute}, {"round", round}};

}  // namespace

std::span<const MethodEntry> number_filters() { return kFilters; }

}  // namespace weft::chat
