// The tests of Jinja: `value is name(arguments)`; and the table of filters.
#include "weft/chat/filters.h"
#include "weft/chat/format.h"
#include "weft/chat/iteration.h"
#include "weft/chat/machine.h"
#include "weft/chat/operators.h"
#include "weft/chat/printing.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

// A test of the value alone.
template <bool (*holds)(const Value&)>
Value plain(Machine&, const Value& value, Arguments& arguments) {
  bind(arguments, "the test", {});
  return Value(holds(value));
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is(Type::boolean); }
bool is_true(const Value& v) { return v.is(Type::boolean) && v.boolean(); }
bool is_false(const Value& v) { return v.is(Type::boolean) && !v.boolean(); }
bool is_integer(const Value& v) { return v.is(Type::integer); }
bool is_float(const Value& v) { return v.is(Type::number); }
bool is_number(const Value& v) { return v.is_numeric(); }
bool is_string(const Value& v) { return v.is_string(); }
bool is_mapping(const Value& v) { return v.is_dict(); }
bool is_escaped(const Value& v) { return v.is_string() && v.string().markup; }
bool is_callable(const Value& v) { return v.is_undefined() || (v.is(Type::object) && v.native().callable()); }
bool can_iterate(const Value& v) { return is_iterable(v) || (v.is(Type::object) && v.native().type_name() == "LoopContext"); }
bool is_sequence(const Value& v) {
  return v.is_sequence() || v.is_string() || v.is_dict() || v.is(Type::range) || v.is_undefined();  // has a length and items
}
bool is_filter(const Value& v) { return v.is_string() && find_filter(v.text()); }
bool is_test(const Value& v) { return v.is_string() && find_test(v.text()); }

template <bool upper>
Value has_case(Machine& machine, const Value& value, Arguments& arguments) {
  const Value text = machine.heap().string(printed(machine, value));
  return machine.call(method(machine, text, upper ? "isupper" : "islower"), arguments);
}

template <Relation relation>
Value compared(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the test", {"other"}, 1);
  return Value(related(machine.heap(), relation, value, *bound[0]));
}

Value modulo_of(Machine& machine, const Value& value, const Value& by) {
  if (value.is_string()) return percent_formatted(machine, value, by);
  return operate(machine.heap(), Operator::modulo, value, by);
}

template <int rest>
Value parity(Machine& machine, const Value& value, Arguments& arguments) {
  bind(arguments, "the tests odd and even", {});
  return Value(equal(modulo_of(machine, value, Value(2)), Value(rest)));
}

Value divisible(Machine& machine, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the test divisibleby", {"num"}, 1);
  return Value(equal(modulo_of(machine, value, *bound[0]), Value(0)));
}

Value same(Machine&, const Value& value, Arguments& arguments) {
  const auto bound = bind(arguments, "the test sameas", {"other"}, 1);
  if (value.type() != bound[0]->type()) return Value(false);
  return Value(value.object() ? value.object() == bound[0]->object() : equal(value, *bound[0]));
}

constexpr MethodEntry kTests[] = {
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"none", plain<is_none>},
    {"boolean", plain<is_boolean>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"number", plain<is_number>},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"iterable", plain<can_iterate>},
    {"sequence", plain<is_sequence>},
    {"callable", plain<is_callable>},
    {"escaped", plain<is_escaped>},
    {"filter", plain<is_filter>},
    {"test", plain<is_test>},
    {"upper", has_case<true>},
    {"lower", has_case<false>},
    {"odd", parity<1>},
    {"even", parity<0>},
    {"divisibleby", divisible},
    {"sameas", same},
    {"in", compared<Relation::in>},
    {"eq", compared<Relation::equal>},
    {"equalto", compared<Relation::equal>},
    {"==", compared<Relation::equal>},
    {"ne", compared<Relation::unequal>},
    {"!=", compared<Relation::unequal>},
    {"lt", compared<Relation::less>},
    {"lessthan", compared<Relation::less>},
    {"<", compared<Relation::less>},
    {"le", compared<Relation::less_equal>},
    {"<=", compared<Relation::less_equal>},
    {"gt", compared<Relation::greater>},
    {"greaterthan", compared<Relation::greater>},
    {">", compared<Relation::greater>},
    {"ge", compared<Relation::greater_equal>},
    {">=", compared<Relation::greater_equal>},
};

Callable found_in(std::span<const MethodEntry> table, std::string_view name) {
  for (const MethodEntry& entry : table)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace

Callable find_test(std::string_view name) { return found_in(kTests, name); }

Callable find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), order_filters(), number_filters()})
    if (const Callable found = found_in(table, name)) return found;
  return nullptr;
}

}  // namespace weft::chat
