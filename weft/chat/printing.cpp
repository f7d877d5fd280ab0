#include "weft/chat/printing.h"

#include <charconv>
#include <cmath>

#include "weft/chat/machine.h"
#include "weft/chat/text.h"
#include "weft/chat/trouble.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft::chat {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void append_escape(std::string& out, char32_t code) {
  const int digits = code <= 0xff ? 2 : code <= 0xffff ? 4 : 8;
  out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[code >> shift & 15];
}

class Printer {
 public:
  explicit Printer(Machine& machine) : machine_(machine), heap_(machine.heap()) {}

  void represent(const Value& value) {
    switch (value.type()) {
      case Type::undefined: return add("Undefined");
      case Type::none: return add("None");
      case Type::boolean: return add(value.boolean() ? "True" : "False");
      case Type::integer: return add(std::to_string(value.integer()));
      case Type::number: return add(represented(value.number()));
      case Type::string:
        heap_.expect(value.text().size() * 4);
        return add(value.string().markup ? "Markup(" + string_literal(value.text()) + ")" : string_literal(value.text()));
      case Type::list: return sequence(value.items(), "[", "]");
      case Type::tuple: return sequence(value.items(), "(", value.items().size() == 1 ? ",)" : ")");
      case Type::dict: return dict(value.dict());
      case Type::range: return range(value.range());
      case Type::view: return view(value.view());
      case Type::iterator: return add("<generator object>");
      case Type::object: return native(value.native());
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void add(std::string_view text) {
    heap_.touch(text.size());
    heap_.expect(out_.size() + text.size());
    out_ += text;
  }

  void sequence(const std::vector<Value>& items, std::string_view open, std::string_view close) {
    add(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(", ");
      represent(items[i]);
    }
    add(close);
  }

  void dict(const Dict& dict) {
    add("{");
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) add(", ");
      represent(dict.entries[i].first);
      add(": ");
      represent(dict.entries[i].second);
    }
    add("}");
  }

  void range(const Range& range) {
    add(range.step == 1 ? join("range(", range.start, ", ", range.stop, ")")
                        : join("range(", range.start, ", ", range.stop, ", ", range.step, ")"));
  }

  void view(const View& view) {
    std::vector<Value> items;
    for (const auto& [key, value] : view.of.dict().entries)
      items.push_back(view.part == View::Part::keys ? key : view.part == View::Part::values ? value : heap_.pair(key, value));
    add(view.part == View::Part::keys ? "dict_keys(" : view.part == View::Part::values ? "dict_values(" : "dict_items(");
    sequence(items, "[", "]");
    add(")");
  }

  // A namespace may contain itself, each time inside lists of up to kValueDepth levels.
  void native(Native& native) {
    const Machine::Level level(machine_, kValueDepth);
    add(native.text(machine_));
  }

  Machine& machine_;
  Heap& heap_;
  std::string out_;
};

}  // namespace

std::string string_literal(std::string_view text) {
  const bool single = text.find('\'') == text.npos || text.find('"') != text.npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.code == char32_t(quote) || step.code == '\\') {
      out += '\\';
      out += char(step.code);
    } else if (step.code == '\n' || step.code == '\r' || step.code == '\t') {
      out += step.code == '\n' ? "\\n" : step.code == '\r' ? "\\r" : "\\t";
    } else if (!is_printable(step.code)) {
      append_escape(out, step.code);
    } else {
      out += text.substr(at, step.length);
    }
    at += step.length;
  }
  return out += quote;
}

// The shortest digits that read back as the same number; an exponent below 1e-4 and from 1e16.
std::string represented(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  if (number == 0) return std::signbit(number) ? "-0.0" : "0.0";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), std::abs(number), std::chars_format::scientific).ptr;
  const std::string_view text(buffer, size_t(end - buffer));
  const size_t e = text.find('e');
  std::string digits(text.substr(0, e));
  std::erase(digits, '.');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  const std::string sign = number < 0 ? "-" : "";
  const auto count = int(digits.size());
  if (exponent < -4 || exponent >= 16) {
    if (count > 1) digits.insert(1, 1, '.');
    const std::string power = std::to_string(std::abs(exponent));
    return sign + digits + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(size_t(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) return sign + digits + std::string(size_t(exponent + 1 - count), '0') + ".0";
  return sign + digits.insert(size_t(exponent) + 1, 1, '.');
}

std::string represented(Machine& machine, const Value& value) {
  Printer printer(machine);
  printer.represent(value);
  return printer.take();
}

std::string printed(Machine& machine, const Value& value) {
  if (value.is_undefined()) return "";
  return value.is_string() ? value.text() : represented(machine, value);
}

}  // namespace weft::chat
