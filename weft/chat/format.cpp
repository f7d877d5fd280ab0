#include "weft/chat/format.h"

#include <cmath>

#include "weft/chat/machine.h"
#include "weft/chat/operators.h"
#include "weft/chat/printing.h"
#include "weft/chat/text.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

// "%s" % value.
class Percent {
 public:
  Percent(Machine& machine, const Value& format, const Value& values)
      : machine_(machine), heap_(machine.heap()), format_(format.text()), markup_(format.string().markup), values_(values) {}

  std::string run() {
    std::string out;
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out.append(format_, at_, percent - at_);
      at_ = percent + 1;
      if (percent < format_.size()) out += directive();
      heap_.expect(out.size());
    }
    const bool single_used = used_ > 0 || values_.is_dict() || values_.is(Type::list);
    if (values_.is(Type::tuple) ? used_ < values_.items().size() : !single_used && !values_.is_undefined())
      wrong("not all arguments converted during string formatting");
    return out;
  }

 private:
  char peek() const {
    if (at_ >= format_.size()) wrong("incomplete format");
    return format_[at_];
  }

  Value next_value() {
    if (keyed_) return std::exchange(keyed_, std::nullopt).value();
    if (values_.is(Type::tuple)) {
      if (used_ >= values_.items().size()) wrong("not enough arguments for format string");
      return values_.items()[used_++];
    }
    if (used_++ > 0) wrong("not enough arguments for format string");
    return values_;
  }

  int64_t number() {
    if (peek() == '*') {
      ++at_;
      return whole(next_value(), "* of a format");
    }
    int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > int64_t(1) << 31) wrong("a width or precision of a format is too large");
    }
    return value;
  }

  void read_key() {
    if (peek() != '(') return;
    const size_t end = format_.find(')', at_);
    if (end == format_.npos) wrong("incomplete format key");
    if (!values_.is_dict()) wrong("format requires a mapping");
    const Value* found = values_.dict().member(std::string_view(format_).substr(at_ + 1, end - at_ - 1));
    if (!found) wrong("the format's key '", format_.substr(at_ + 1, end - at_ - 1), "' is not in the mapping");
    keyed_ = *found;
    used_ = std::max<size_t>(used_, 1);
    at_ = end + 1;
  }

  std::string directive() {
    read_key();
    Field field;
    bool left = false, zero = false;
    for (;; ++at_) {
      const char c = peek();
      if (c == '-')
        left = true;
      else if (c == '0')
        zero = true;
      else if (c == '#')
        field.alternate = true;
      else if (c == '+' || (c == ' ' && field.sign != '+'))
        field.sign = c;
      else if (c != ' ')
        break;
    }
    field.width = number();
    if (peek() == '.') {
      ++at_;
      field.precision = std::max<int64_t>(number(), 0);
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    field.type = peek();
    ++at_;
    if (field.type == '%') return "%";
    field.align = left ? '<' : '>';
    if (zero && !left && std::string_view("diuoxXeEfFgG").find(field.type) != std::string_view::npos)
      field.align = '=', field.fill.assign(1, '0');
    return formatted(field, next_value());
  }

  std::string formatted(Field& field, const Value& value) {
    if (field.type == 's' || field.type == 'r' || field.type == 'a') {
      std::string text = field.type == 's' ? printed(machine_, value) : represented(machine_, value);
      if (markup_ && !(value.is_string() && value.string().markup)) text = escaped_html(text);
      field.type = 0, field.sign = '-', field.alternate = false;
      return text_field(heap_, std::move(text), field);
    }
    require_defined(value);
    if (field.type == 'c' && value.is_string() && value.string().length == 1) {
      field.type = 0;
      return text_field(heap_, value.text(), field);
    }
    const bool decimal = field.type == 'd' || field.type == 'i' || field.type == 'u';
    if (!value.is_numeric() ||
        (!decimal && value.is(Type::number) && std::string_view("eEfFgG").find(field.type) == std::string_view::npos))
      wrong("%", field.type, " format: a number is required, not ", type_name(value));
    if (std::string_view("eEfFgG").find(field.type) != std::string_view::npos) return float_field(heap_, value.number(), field);
    if (!std::isfinite(value.number()) || std::abs(value.number()) >= 0x1p63)
      wrong("%", field.type, " format: the number does not fit 64 bits");
    field.precision = -1;
    return integer_field(heap_, value.is_whole() ? value.integer() : int64_t(value.number()), field);
  }

  Machine& machine_;
  Heap& heap_;
  const std::string& format_;
  const bool markup_;
  const Value values_;
  size_t at_ = 0, used_ = 0;
  std::optional<Value> keyed_;
};

// "{}".format(value).
class Braces {
 public:
  Braces(Machine& machine, const Arguments& arguments) : machine_(machine), heap_(machine.heap()), arguments_(arguments) {}

  std::string run(std::string_view format, int level) {
    if (level > 2) wrong("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
        out += c;
        at += 2;
      } else if (c == '}') {
        wrong("Single '}' encountered in format string");
      } else if (c == '{') {
        const size_t end = field_end(format, at + 1);
        out += field(format.substr(at + 1, end - at - 1), level);
        heap_.expect(out.size());
        at = end + 1;
      } else {
        out += c;
        ++at;
      }
    }
    return out;
  }

 private:
  static size_t field_end(std::string_view format, size_t at) {
    for (int open = 1; at < format.size(); ++at) {
      open += format[at] == '{' ? 1 : format[at] == '}' ? -1 : 0;
      if (open == 0) return at;
    }
    wrong("expected '}' before end of string");
  }

  // name[.attribute|[index]]...[!conversion][:spec]
  std::string field(std::string_view text, int level) {
    const size_t name_end = std::min(text.find_first_of("!:"), text.size());
    Value value = looked_up(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (rest.starts_with("!")) {
      const char conversion = rest.size() > 1 ? rest[1] : ' ';
      if (conversion != 'r' && conversion != 's') wrong("Unknown conversion specifier ", conversion);
      value = heap_.string(conversion == 'r' ? represented(machine_, value) : printed(machine_, value));
      rest.remove_prefix(2);
    }
    if (!rest.empty() && rest[0] != ':') wrong("expected ':' after conversion specifier");
    const std::string spec = rest.empty() ? "" : run(rest.substr(1), level + 1);
    if (spec.empty()) return printed(machine_, value);
    return formatted(value, spec);
  }

  std::string formatted(const Value& value, const std::string& spec) {
    const Field field = parsed_field(spec);
    if (value.is_string()) return text_field(heap_, value.text(), field);
    if (value.is_whole()) return integer_field(heap_, value.integer(), field);
    if (value.is(Type::number)) return float_field(heap_, value.number(), field);
    wrong("unsupported format string passed to ", type_name(value), ".__format__");
  }

  Value looked_up(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, end);
    Value value = argument(first);
    for (size_t at = end; at < name.size();) {
      const bool index = name[at] == '[';
      const size_t stop = index ? name.find(']', at) : std::min(name.find_first_of(".[", at + 1), name.size());
      if (stop == name.npos || stop <= at + 1) wrong("Missing ']' or empty attribute in format string");
      const std::string part(name.substr(at + 1, stop - at - 1));
      const bool digits = part.find_first_not_of("0123456789") == part.npos && part.size() < 10;
      value = index ? machine_.item(value, digits ? Value(std::stoi(part)) : heap_.string(part)) : machine_.attribute(value, part);
      at = index ? stop + 1 : stop;
    }
    return value;
  }

  Value argument(std::string_view name) {
    const bool digits = name.find_first_not_of("0123456789") == name.npos;
    if (!digits) {
      const Value* found = arguments_.find(name);
      if (!found) wrong("the format's argument '", name, "' is not given");
      return *found;
    }
    if (name.size() > 9) wrong("a format's argument number is too large");
    if (numbered_ && *numbered_ == name.empty()) wrong("cannot switch between manual field specification and automatic field numbering");
    numbered_ = !name.empty();
    const size_t index = name.empty() ? next_++ : size_t(std::stoi(std::string(name)));
    if (index >= arguments_.positional.size()) wrong("Replacement index ", index, " out of range for positional args tuple");
    return arguments_.positional[index];
  }

  Machine& machine_;
  Heap& heap_;
  const Arguments& arguments_;
  size_t next_ = 0;
  std::optional<bool> numbered_;
};

}  // namespace

Value percent_formatted(Machine& machine, const Value& format, const Value& values) {
  return machine.heap().string(Percent(machine, format, values).run(), format.string().markup);
}

std::string brace_formatted(Machine& machine, const std::string& format, const Arguments& arguments) {
  return Braces(machine, arguments).run(format, 1);
}

}  // namespace weft::chat
