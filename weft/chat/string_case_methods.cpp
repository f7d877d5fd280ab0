// Methods of strings about case, classes of characters and padding.
#include <algorithm>

#include "weft/chat/format.h"
#include "weft/chat/machine.h"
#include "weft/chat/methods.h"
#include "weft/chat/operators.h"
#include "weft/chat/text.h"

namespace weft::chat {
namespace {

template <std::string (*change)(std::string_view)>
Value changed(Machine& machine, const Value& self, Arguments& arguments) {
  bind(arguments, "a method of str", {});
  machine.heap().expect(self.text().size() * 8);
  machine.heap().touch(self.text().size() * 8);
  return machine.heap().string(change(self.text()), self.string().markup);
}

std::string folded(std::string_view text) {
  std::string out = lower(text);
  for (size_t at = out.find("\u00df"); at != out.npos; at = out.find("\u00df", at)) out.replace(at, 2, "ss");
  return out;
}

template <bool (*accepts)(char32_t)>
Value all(Machine& machine, const Value& self, Arguments& arguments) {
  bind(arguments, "a method of str", {});
  machine.heap().touch(self.text().size() * 4);
  const std::u32string codes = decoded(self.text());
  return Value(!codes.empty() && std::all_of(codes.begin(), codes.end(), accepts));
}

bool is_alphanumeric(char32_t code) { return is_alphabetic(code) || is_numeric(code); }

Value is_ascii(Machine&, const Value& self, Arguments& arguments) {
  bind(arguments, "isascii()", {});
  return Value(self.string().ascii());
}

Value all_printable(Machine&, const Value& self, Arguments& arguments) {
  bind(arguments, "isprintable()", {});
  const std::u32string codes = decoded(self.text());
  return Value(std::all_of(codes.begin(), codes.end(), is_printable));
}

// At least one cased character, and all of them of the one case.
template <bool (*wanted)(char32_t)>
Value cased(Machine& machine, const Value& self, Arguments& arguments) {
  bind(arguments, "a method of str", {});
  machine.heap().touch(self.text().size() * 4);
  bool any = false;
  for (const char32_t code : decoded(self.text())) {
    if (!is_cased(code)) continue;
    if (!wanted(code)) return Value(false);
    any = true;
  }
  return Value(any);
}

Value is_title(Machine&, const Value& self, Arguments& arguments) {
  bind(arguments, "istitle()", {});
  bool inside = false, any = false;
  for (const char32_t code : decoded(self.text())) {
    if (is_cased(code) && is_lower(code) != inside) return Value(false);
    inside = is_cased(code);
    any |= inside;
  }
  return Value(any);
}

Value is_identifier(Machine&, const Value& self, Arguments& arguments) {
  bind(arguments, "isidentifier()", {});
  const std::u32string codes = decoded(self.text());
  if (codes.empty() || is_decimal(codes[0])) return Value(false);
  return Value(std::all_of(codes.begin(), codes.end(), [](char32_t code) { return code == '_' || is_alphanumeric(code); }));
}

// str.center() puts the odd space to the left if the width is odd, format() to the right.
Value centred(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "center()", {"width", "fillchar"}, 1);
  const int64_t width = whole(*bound[0], "a width"), missing = width - int64_t(self.string().length);
  if (missing <= 0) return self;
  const int64_t left = missing / 2 + (missing & width & 1);
  Field field;
  if (bound[1]) field.fill = text(*bound[1], "a fill character");
  field.align = '>';
  field.width = int64_t(self.string().length) + left;
  std::string padded = text_field(machine.heap(), self.text(), field);
  field.align = '<';
  field.width = width;
  return machine.heap().string(text_field(machine.heap(), std::move(padded), field), self.string().markup);
}

template <char align>
Value justified(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "a method of str", {"width", "fillchar"}, 1);
  Field field;
  field.align = align;
  field.width = whole(*bound[0], "a width");
  if (bound[1]) field.fill = text(*bound[1], "a fill character");
  return machine.heap().string(text_field(machine.heap(), self.text(), field), self.string().markup);
}

Value zero_filled(Machine& machine, const Value& self, Arguments& arguments) {
  const auto bound = bind(arguments, "zfill()", {"width"}, 1);
  const std::string& digits = self.text();
  const bool sign = !digits.empty() && (digits[0] == '-' || digits[0] == '+');
  Field field;
  field.align = '>';
  field.fill = "0";
  field.width = whole(*bound[0], "a width") - int64_t(sign);
  return machine.heap().string(digits.substr(0, sign) + text_field(machine.heap(), digits.substr(sign), field), self.string().markup);
}

constexpr MethodEntry kMethods[] = {
    {"upper", changed<upper>},
    {"lower", changed<lower>},
    {"title", changed<titled>},
    {"capitalize", changed<capitalized>},
    {"swapcase", changed<swapped>},
    {"casefold", changed<folded>},
    {"isalpha", all<is_alphabetic>},
    {"isdigit", all<is_digit>},
    {"isdecimal", all<is_decimal>},
    {"isnumeric", all<is_numeric>},
    {"isalnum", all<is_alphanumeric>},
    {"isspace", all<is_space>},
    {"isascii", is_ascii},
    {"isprintable", all_printable},
    {"isupper", cased<is_upper>},
    {"islower", cased<is_lower>},
    {"istitle", is_title},
    {"isidentifier", is_identifier},
    {"center", centred},
    {"ljust", justified<'<'>},
    {"rjust", justified<'>'>},
    {"zfill", zero_filled},
};

}  // namespace

std::span<const MethodEntry> string_case_methods() { return kMethods; }

}  // namespace weft::chat
