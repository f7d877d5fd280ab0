#include <charconv>
#include <cmath>

#include "weft/chat/format.h"
#include "weft/chat/printing.h"
#include "weft/chat/text.h"
#include "weft/chat/trouble.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft::chat {
namespace {

constexpr int64_t kMostPrecision = 300;  // digits; a double has no more of any use

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

int64_t leading_number(std::string_view& spec) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(spec.data(), spec.data() + spec.size(), value);
  if (error == std::errc::result_out_of_range) wrong("a width or precision of a format is too large");
  if (error != std::errc()) return -1;
  spec.remove_prefix(size_t(end - spec.data()));
  return value;
}

std::string padded(Heap& heap, const std::string& sign, const std::string& body, const Field& field, char natural) {
  const auto length = int64_t(code_points(sign) + code_points(body));
  if (field.width <= length) return sign + body;
  const int64_t missing = field.width - length;
  heap.expect(size_t(missing) * field.fill.size());
  heap.touch(size_t(missing));
  const auto fill = [&](int64_t count) {
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += field.fill;
    return text;
  };
  switch (field.align ? field.align : natural) {
    case '<': return sign + body + fill(missing);
    case '^': return fill(missing / 2) + sign + body + fill(missing - missing / 2);
    case '=': return sign + fill(missing) + body;
    default: return fill(missing) + sign + body;
  }
}

std::string grouped(const std::string& digits, char separator, size_t size) {
  if (!separator) return digits;
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string sign_of(bool negative, const Field& field) { return negative ? "-" : field.sign == '-' ? "" : std::string(1, field.sign); }

}  // namespace

Field parsed_field(std::string_view spec) {
  Field field;
  if (!spec.empty()) {
    const size_t length = utf8_step(spec).length;
    if (spec.size() > length && is_align(spec[length])) {
      field.fill = spec.substr(0, length);
      field.align = spec[length];
      spec.remove_prefix(length + 1);
    } else if (is_align(spec[0])) {
      field.align = spec[0];
      spec.remove_prefix(1);
    }
  }
  const auto skip = [&](char c) { return !spec.empty() && spec[0] == c && (spec.remove_prefix(1), true); };
  for (const char sign : {'+', '-', ' '})
    if (skip(sign)) field.sign = sign;
  field.alternate = skip('#');
  if (skip('0') && !field.align) field.align = '=', field.fill.assign(1, '0');
  field.width = std::max<int64_t>(leading_number(spec), 0);
  for (const char group : {',', '_'})
    if (skip(group)) field.group = group;
  if (skip('.')) {
    field.precision = leading_number(spec);
    if (field.precision < 0) wrong("Format specifier missing precision");
  }
  if (!spec.empty()) field.type = spec[0], spec.remove_prefix(1);
  if (!spec.empty()) wrong("Invalid format specifier");
  return field;
}

std::string text_field(Heap& heap, std::string text, const Field& field) {
  if ((field.type && field.type != 's') || field.sign != '-' || field.alternate || field.group || field.align == '=')
    wrong("a format specifier that does not fit a string");
  if (field.precision >= 0) text.resize(byte_offset(text, size_t(field.precision)));
  return padded(heap, "", text, field, '<');
}

std::string integer_field(Heap& heap, int64_t value, const Field& field) {
  const char type = field.type ? field.type : 'd';
  if (std::string_view("eEfFgG%").find(type) != std::string_view::npos) return float_field(heap, double(value), field);
  if (field.precision >= 0) wrong("Precision not allowed in integer format specifier");
  if (type == 'c') {
    if (value < 0 || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) wrong("%c arg not in range(0x110000)");
    std::string text;
    append_utf8(text, char32_t(value));
    return padded(heap, "", text, field, '<');
  }
  const int base = type == 'd' || type == 'n' || type == 'i' || type == 'u' ? 10
                   : type == 'b'                                            ? 2
                   : type == 'o'                                            ? 8
                   : (type | 0x20) == 'x'                                   ? 16
                                                                            : 0;
  if (base == 0) wrong("Unknown format code '", type, "' for object of type 'int'");
  char buffer[72];
  const uint64_t magnitude = value < 0 ? uint64_t(0) - uint64_t(value) : uint64_t(value);
  std::string digits(buffer, std::to_chars(buffer, buffer + sizeof(buffer), magnitude, base).ptr);
  if (type == 'X') digits = upper(digits);
  std::string sign = sign_of(value < 0, field);
  if (field.alternate && base != 10) sign += type == 'b' ? "0b" : type == 'o' ? "0o" : type == 'x' ? "0x" : "0X";
  return padded(heap, sign, grouped(digits, field.group, base == 10 ? 3 : 4), field, '>');
}

std::string float_field(Heap& heap, double value, const Field& field) {
  char type = field.type ? field.type : field.precision >= 0 ? 'g' : 'r';
  if (type == 'n') type = 'g';
  if (std::string_view("eEfFgG%r").find(type) == std::string_view::npos)
    wrong("Unknown format code '", type, "' for object of type 'float'");
  if (field.precision > kMostPrecision) wrong("a format asks for ", field.precision, " digits, the limit is ", kMostPrecision);
  const std::string sign = sign_of(std::signbit(value) && !std::isnan(value), field);
  const double magnitude = std::abs(value);
  std::string body;
  if (!std::isfinite(value)) {
    body = std::isnan(value) ? "nan" : "inf";
    if (type == 'E' || type == 'F' || type == 'G') body = upper(body);
  } else if (type == 'r') {
    body = represented(magnitude);
  } else {
    const char pattern[] = {'%', '.', '*', type == '%' ? 'f' : type, 0};
    char buffer[700];
    const int precision = int(field.precision < 0 ? 6 : field.precision);
    const int size = std::snprintf(buffer, sizeof(buffer), pattern, precision, type == '%' ? magnitude * 100 : magnitude);
    body.assign(buffer, size_t(size));
    if (field.type == 0 && body.find_first_of(".e") == body.npos) body += ".0";
  }
  if (type == '%') body += '%';
  return padded(heap, sign, grouped(body, field.group, 3), field, '>');
}

}  // namespace weft::chat
