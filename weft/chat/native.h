// Values with attributes and calls of their own: functions, bound methods, macros, namespaces, loops.
#pragma once

#include <optional>

#include "weft/chat/value.h"

namespace weft::chat {

class Machine;

// Arguments of a call, a filter or a test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value* find(std::string_view name) const;
};

struct Native : Object {
  virtual std::string_view type_name() const = 0;
  virtual std::optional<Value> attribute(Machine&, std::string_view) { return std::nullopt; }
  virtual bool callable() const { return false; }
  virtual Value call(Machine& machine, Arguments& arguments);
  virtual std::string text(Machine& machine);
};

// A function of this library under a name of Python.
using Callable = Value (*)(Machine& machine, const Value& self, Arguments& arguments);

struct Function : Native {
  Function(std::string name, Callable function, Value self = {}, bool bound = false)
      : name(std::move(name)), function(function), self(std::move(self)), bound(bound) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value call(Machine& machine, Arguments& arguments) override;
  std::string text(Machine& machine) override;

  std::string name;
  Callable function;
  Value self;
  bool bound;
};

// namespace(): the one value that a template changes. The interpreter owns it until rendering ends, so that namespaces may refer to each
// other.
struct Namespace : Native {
  std::vector<std::pair<std::string, Value>> members;

  std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(Machine&, std::string_view name) override;
  std::string text(Machine& machine) override;
  void set(std::string_view name, Value value);
};

// Binds arguments to parameters by position and name. Missing ones are nullopt; too many or unknown ones throw and name `what`.
std::vector<std::optional<Value>> bind(const Arguments& arguments, std::string_view what,
                                       std::initializer_list<std::string_view> parameters, size_t required = 0);

}  // namespace weft::chat
