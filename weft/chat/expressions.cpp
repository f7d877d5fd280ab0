#include "weft/chat/format.h"
#include "weft/chat/iteration.h"
#include "weft/chat/machine.h"
#include "weft/chat/operators.h"
#include "weft/chat/printing.h"
#include "weft/chat/trouble.h"

namespace weft::chat {

Value Machine::evaluate(const Expression& e, const FramePtr& frame) {
  using Kind = Expression::Kind;
  const Level level(*this);
  heap_.step();
  switch (e.kind) {
    case Kind::constant: return e.value;
    case Kind::name: return evaluate_name(e, frame);
    case Kind::list:
    case Kind::tuple: return evaluate_sequence(e, frame);
    case Kind::dict: return evaluate_dict(e, frame);
    case Kind::attribute: {
      const Value of = evaluate(*e.parts[0], frame);
      line_ = e.line;
      return attribute(of, e.name);
    }
    case Kind::item: {
      const Value of = evaluate(*e.parts[0], frame), index = evaluate(*e.parts[1], frame);
      line_ = e.line;
      return item(of, index);
    }
    case Kind::slice: return evaluate_slice(e, frame);
    case Kind::call: return evaluate_call(e, frame);
    case Kind::filter: return evaluate_filter(e, frame);
    case Kind::test: return evaluate_test(e, frame);
    case Kind::negate: return negated(evaluate(*e.parts[0], frame));
    case Kind::plus: {
      const Value value = evaluate(*e.parts[0], frame);
      require_defined(value);
      if (!value.is_numeric()) wrong("bad operand type for unary +: '", type_name(value), "'");
      return value.is(Type::boolean) ? Value(value.integer()) : value;
    }
    case Kind::logical_not: return Value(!truthy(evaluate(*e.parts[0], frame)));
    case Kind::logical_and: {
      Value left = evaluate(*e.parts[0], frame);
      return truthy(left) ? evaluate(*e.parts[1], frame) : left;
    }
    case Kind::logical_or: {
      Value left = evaluate(*e.parts[0], frame);
      return truthy(left) ? left : evaluate(*e.parts[1], frame);
    }
    case Kind::binary: {
      const Value left = evaluate(*e.parts[0], frame), right = evaluate(*e.parts[1], frame);
      line_ = e.line;
      if (e.operation == Operator::modulo && left.is_string()) return percent_formatted(*this, left, right);
      return operate(heap_, e.operation, left, right);
    }
    case Kind::compare: return evaluate_comparison(e, frame);
    case Kind::concat: return evaluate_concat(e, frame);
    case Kind::conditional: return evaluate_conditional(e, frame);
    case Kind::member: break;
  }
  wrong("an expression that has no value");
}

Value Machine::context_variable(const std::string& name) const {
  const auto found = context_.find(name);
  return found == context_.end() ? Value(Type::undefined, nullptr) : found->second;
}

Value Machine::evaluate_name(const Expression& e, const FramePtr& frame) {
  const Frame* from = frame.get();
  for (int i = 0; i < e.place.scopes; ++i) from = from->outer.get();
  const Value& value = from->slots[size_t(e.place.slot)];
  if (value.is_undefined() && !value.missing()) {
    line_ = e.line;
    return heap_.undefined("'" + e.name + "' is undefined");
  }
  return value;
}

Value Machine::evaluate_sequence(const Expression& e, const FramePtr& frame) {
  std::vector<Value> items;
  items.reserve(e.parts.size());
  for (const ExpressionPtr& part : e.parts) items.push_back(evaluate(*part, frame));
  return e.kind == Expression::Kind::list ? heap_.list(std::move(items)) : heap_.tuple(std::move(items));
}

Value Machine::evaluate_dict(const Expression& e, const FramePtr& frame) {
  std::vector<Dict::Entry> entries;
  for (size_t i = 0; i + 1 < e.parts.size(); i += 2) {
    Value key = evaluate(*e.parts[i], frame);
    entries.emplace_back(std::move(key), evaluate(*e.parts[i + 1], frame));
  }
  line_ = e.line;
  return heap_.dict(std::move(entries));
}

Value Machine::evaluate_slice(const Expression& e, const FramePtr& frame) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i)
    if (e.parts[i]) parts[i] = evaluate(*e.parts[i], frame);
  line_ = e.line;
  return slice(parts[0], parts[1], parts[2], parts[3]);
}

Arguments Machine::evaluate_arguments(const CallArguments& arguments, const FramePtr& frame) {
  Arguments made;
  for (const ExpressionPtr& part : arguments.positional) made.positional.push_back(evaluate(*part, frame));
  for (const auto& [name, part] : arguments.named) {
    if (made.find(name)) wrong("the argument '", name, "' is given twice");
    made.named.emplace_back(name, evaluate(*part, frame));
  }
  if (arguments.more_positional)
    for (Value& value : collected(heap_, evaluate(*arguments.more_positional, frame))) made.positional.push_back(std::move(value));
  if (arguments.more_named) {
    const Value more = evaluate(*arguments.more_named, frame);
    if (!more.is_dict()) wrong("the argument after ** must be a mapping, not ", type_name(more));
    for (const auto& [key, value] : more.dict().entries) {
      heap_.step();
      if (!key.is_string()) wrong("keywords must be strings");
      if (made.find(key.text())) wrong("the argument '", key.text(), "' is given twice");
      made.named.emplace_back(key.text(), value);
    }
  }
  return made;
}

Value Machine::evaluate_call(const Expression& e, const FramePtr& frame, const Value* caller) {
  const Value callee = evaluate(*e.parts[0], frame);
  Arguments arguments = evaluate_arguments(*e.arguments, frame);
  if (caller) {
    if (arguments.find("caller")) wrong("the argument 'caller' is given twice");
    arguments.named.emplace_back("caller", *caller);
  }
  line_ = e.line;
  return call(callee, arguments);
}

Value Machine::evaluate_filter(const Expression& e, const FramePtr& frame) {
  const Value value = e.parts[0] ? evaluate(*e.parts[0], frame) : *block_text_;
  Arguments arguments = evaluate_arguments(*e.arguments, frame);
  line_ = e.line;
  return filter(e.name, value, arguments);
}

Value Machine::evaluate_test(const Expression& e, const FramePtr& frame) {
  const Value value = evaluate(*e.parts[0], frame);
  Arguments arguments = evaluate_arguments(*e.arguments, frame);
  line_ = e.line;
  return Value(test(e.name, value, arguments));
}

Value Machine::evaluate_comparison(const Expression& e, const FramePtr& frame) {
  Value left = evaluate(*e.parts[0], frame);
  for (size_t i = 0; i < e.relations.size(); ++i) {
    Value right = evaluate(*e.parts[i + 1], frame);
    line_ = e.line;
    if (!related(heap_, e.relations[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Machine::evaluate_concat(const Expression& e, const FramePtr& frame) {
  std::string text;
  for (const ExpressionPtr& part : e.parts) {
    const Value value = evaluate(*part, frame);
    if (value.is_string()) {
      heap_.expect(text.size() + value.text().size());
      text += value.text();
    } else {
      text += printed(*this, value);
    }
  }
  return heap_.string(std::move(text));
}

Value Machine::evaluate_conditional(const Expression& e, const FramePtr& frame) {
  if (truthy(evaluate(*e.parts[0], frame))) return evaluate(*e.parts[1], frame);
  if (e.parts[2]) return evaluate(*e.parts[2], frame);
  return heap_.undefined(join("the inline if-expression on line ", e.line, " evaluated to false and no else section was defined."));
}

Value Machine::filter(const std::string& name, const Value& value, Arguments& arguments) {
  const Callable found = find_filter(name);
  if (!found) not_supported("the filter '", name.substr(0, 60), "' is not known");
  return found(*this, value, arguments);
}

bool Machine::test(const std::string& name, const Value& value, Arguments& arguments) {
  const Callable found = find_test(name);
  if (!found) not_supported("the test '", name.substr(0, 60), "' is not known");
  return found(*this, value, arguments).boolean();
}

Value Machine::call(const Value& callee, Arguments& arguments) {
  require_defined(callee);
  if (!callee.is(Type::object) || !callee.native().callable()) wrong("'", type_name(callee), "' object is not callable");
  const Level level(*this);
  return callee.native().call(*this, arguments);
}

}  // namespace weft::chat
