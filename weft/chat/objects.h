// Macros and loops as values.
#pragma once

#include "weft/chat/machine.h"

namespace weft::chat {

// A macro with the frame it was defined in. The machine owns it until rendering ends: frames and macros may refer to each other.
struct Macro : Native {
  Macro(const MacroSyntax& syntax, FramePtr frame) : syntax(syntax), frame(std::move(frame)) {}
  std::string_view type_name() const override { return "Macro"; }
  std::optional<Value> attribute(Machine& machine, std::string_view name) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Arguments& arguments) override { return machine.call_macro(*this, arguments); }
  std::string text(Machine&) override { return "<Macro '" + syntax.name + "'>"; }

  const MacroSyntax& syntax;
  FramePtr frame;
};

// The variable `loop`. It is closed when its loop ends and keeps only its counters.
struct Loop : Native, std::enable_shared_from_this<Loop> {
  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<Value> attribute(Machine& machine, std::string_view name) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Arguments& arguments) override;
  std::string text(Machine& machine) override;

  bool advance();  // to the next element; false: there is none
  void close();
  bool peek();  // whether an element follows
  int64_t length(Machine& machine);
  Value cycle(Machine& machine, Arguments& arguments);
  Value changed(Machine& machine, Arguments& arguments);

  Value elements;  // an iterator
  Value before, current, after;
  bool has_before = false, has_after = false;
  std::vector<Value> rest;  // elements that were taken to know the length
  size_t rest_at = 0;
  int64_t index0 = -1, known_length = -1, depth0 = 0;
  std::vector<Value> last_changed;
  bool was_changed = false;
  const Statement* statement = nullptr;
  FramePtr frame;  // around the loop
};

}  // namespace weft::chat
