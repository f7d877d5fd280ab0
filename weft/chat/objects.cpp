#include "weft/chat/objects.h"

#include <algorithm>

#include "weft/chat/iteration.h"
#include "weft/chat/operators.h"
#include "weft/chat/printing.h"
#include "weft/chat/trouble.h"

namespace weft::chat {

const Value* Arguments::find(std::string_view name) const {
  for (const auto& [given, value] : named)
    if (given == name) return &value;
  return nullptr;
}

std::vector<std::optional<Value>> bind(const Arguments& arguments, std::string_view what,
                                       std::initializer_list<std::string_view> parameters, size_t required) {
  if (arguments.positional.size() > parameters.size())
    wrong(what, " takes at most ", parameters.size(), " arguments, got ", arguments.positional.size());
  std::vector<std::optional<Value>> bound(parameters.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) wrong(what, " has no argument '", name, "'");
    std::optional<Value>& place = bound[size_t(found - parameters.begin())];
    if (place) wrong(what, " got the argument '", name, "' twice");
    place = value;
  }
  for (size_t i = 0; i < required; ++i)
    if (!bound[i]) wrong(what, " needs the argument '", *(parameters.begin() + i), "'");
  return bound;
}

Value Native::call(Machine&, Arguments&) { wrong("'", type_name(), "' object is not callable"); }
std::string Native::text(Machine&) { return join("<", type_name(), ">"); }

Value Function::call(Machine& machine, Arguments& arguments) { return function(machine, self, arguments); }
std::string Function::text(Machine&) {
  return bound ? "<built-in method " + name + " of " + std::string(chat::type_name(self)) + " object>" : "<function " + name + ">";
}

std::optional<Value> Namespace::attribute(Machine&, std::string_view name) {
  for (const auto& [key, value] : members)
    if (key == name) return value;
  return std::nullopt;
}

void Namespace::set(std::string_view name, Value value) {
  if (name.starts_with("_")) wrong("a namespace cannot store the attribute '", name, "': it starts with an underscore");
  for (auto& [key, member] : members)
    if (key == name) {
      member = std::move(value);
      return;
    }
  members.emplace_back(name, std::move(value));
}

std::string Namespace::text(Machine& machine) {
  std::vector<Dict::Entry> entries;
  for (const auto& [name, value] : members) entries.emplace_back(machine.heap().string(name), value);
  return "<Namespace " + represented(machine, machine.heap().dict(std::move(entries))) + ">";
}

// A value that does not own the object: the machine does.
template <class Kept>
static Value borrowed(Kept* kept) {
  return Value(Type::object, std::shared_ptr<const Object>(std::shared_ptr<const Object>(), kept));
}

Value Machine::make_namespace(std::vector<std::pair<std::string, Value>> members) {
  auto made = std::make_unique<Namespace>();
  heap_.count(*made, sizeof(Namespace) + members.size() * sizeof(members[0]));
  for (auto& [name, value] : members) made->set(name, std::move(value));
  namespaces_.push_back(std::move(made));
  return borrowed(namespaces_.back().get());
}

// The frame stays with the macro.
Value Machine::make_macro(const MacroSyntax& syntax, const FramePtr& frame) {
  macros_.push_back(std::make_unique<Macro>(syntax, frame));
  heap_.count(*macros_.back(), sizeof(Macro) + sizeof(Frame) + frame->slots.size() * sizeof(Value));
  return borrowed(macros_.back().get());
}

std::optional<Value> Macro::attribute(Machine& machine, std::string_view name) {
  if (name == "name") return machine.heap().string(syntax.name);
  if (name == "catch_kwargs") return Value(syntax.uses_kwargs);
  if (name == "catch_varargs") return Value(syntax.uses_varargs);
  if (name == "caller") return Value(syntax.uses_caller);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const std::string& parameter : syntax.parameters) names.push_back(machine.heap().string(parameter));
  return machine.heap().tuple(std::move(names));
}

Value Machine::call_macro(const Macro& macro, Arguments& arguments) {
  const FramePtr frame = enter(macro.syntax.scope, macro.frame);
  assign_parameters(macro, frame, arguments);
  const int line = line_;
  Capture capture(*this);
  run(macro.syntax.body, frame);
  line_ = line;
  return heap_.string(capture.text);
}

void Machine::assign_parameters(const Macro& macro, const FramePtr& frame, Arguments& arguments) {
  const MacroSyntax& m = macro.syntax;
  auto& positional = arguments.positional;
  auto& named = arguments.named;
  const auto taken = [&](std::string_view name) -> std::optional<Value> {
    const auto found = std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first == name; });
    if (found == named.end()) return std::nullopt;
    Value value = std::move(found->second);
    named.erase(found);
    return value;
  };
  const size_t count = m.parameters.size();
  std::vector<size_t> missing;
  for (size_t i = 0; i < count; ++i) {
    std::optional<Value> value = i < positional.size() ? std::optional(positional[i]) : taken(m.parameters[i]);
    if (value)
      frame->slots[size_t(m.places[i].slot)] = *value;
    else
      missing.push_back(i);
  }
  if (m.uses_caller) frame->slots[size_t(m.caller.slot)] = taken("caller").value_or(heap_.undefined("No caller defined"));
  if (m.uses_kwargs) {
    std::vector<Dict::Entry> entries;
    for (auto& [name, value] : named) entries.emplace_back(heap_.string(name), std::move(value));
    frame->slots[size_t(m.kwargs.slot)] = heap_.dict(std::move(entries));
  } else if (!named.empty()) {
    wrong("macro '", m.name, "' takes no keyword argument '", named[0].first, "'");
  }
  if (m.uses_varargs)
    frame->slots[size_t(m.varargs.slot)] =
        heap_.tuple({positional.begin() + ptrdiff_t(std::min(count, positional.size())), positional.end()});
  else if (positional.size() > count)
    wrong("macro '", m.name, "' takes not more than ", count, " argument(s)");
  for (const size_t i : missing) {
    const size_t first_default = count - m.defaults.size();
    frame->slots[size_t(m.places[i].slot)] = i >= first_default ? evaluate(*m.defaults[i - first_default], frame)
                                                                : heap_.undefined("parameter '" + m.parameters[i] + "' was not provided");
  }
}

Value Machine::call_loop(const Loop& loop, const Value& iterable) {
  if (!loop.statement || !loop.statement->recursive) wrong("the loop must have the 'recursive' marker to be called recursively");
  Capture capture(*this);
  run_loop(*loop.statement, loop.frame, iterable, loop.depth0 + 1);
  return heap_.string(capture.text);
}

}  // namespace weft::chat
