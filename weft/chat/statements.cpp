#include <functional>

#include "weft/chat/iteration.h"
#include "weft/chat/objects.h"
#include "weft/chat/printing.h"
#include "weft/chat/trouble.h"

namespace weft::chat {

Machine::Machine(const SyntaxTree& tree, const Variables& variables, const TemplateLimits& limits, std::time_t now)
    : tree_(tree), limits_(limits), now_(now), heap_(limits) {
  add_functions(heap_, context_);
  for (const auto& [name, value] : variables) context_[name] = value;
}

// Namespaces refer to values, values to namespaces without owning them: the members go first, while every namespace is there.
Machine::~Machine() {
  for (const auto& names : namespaces_) names->members.clear();
}

Machine::Level::Level(Machine& machine, int levels) : machine(machine), levels(levels) {
  machine.depth_ += levels;
  if (machine.depth_ <= machine.limits_.depth) return;
  machine.depth_ -= levels;
  exceeded("the template calls itself too deeply: more than ", machine.limits_.depth, " nested evaluations");
}

Machine::Capture::~Capture() {
  machine.out_ = before;
  machine.written_ -= text.size();
}

Rendered Machine::run() {
  out_ = &rendered_.text;
  run(tree_.body, enter(tree_.scope, nullptr));
  return std::move(rendered_);
}

void Machine::emit(std::string_view text) {
  heap_.touch(text.size());
  if (text.size() > limits_.output_bytes || written_ > limits_.output_bytes - text.size())
    exceeded("the template writes more than ", limits_.output_bytes, " bytes");
  written_ += text.size();
  *out_ += text;
}

FramePtr Machine::enter(const Scope& scope, const FramePtr& outer) {
  auto frame = std::make_shared<Frame>();
  frame->scope = &scope;
  frame->outer = outer;
  frame->slots.reserve(scope.slots.size());
  heap_.step(int64_t(scope.slots.size()) + 1);
  for (const Slot& slot : scope.slots) {
    if (slot.start == Slot::Start::context) {
      frame->slots.push_back(context_variable(slot.name));
    } else if (slot.start == Slot::Start::outer) {
      const Frame* from = frame.get();
      for (int i = 0; i < slot.outer.scopes; ++i) from = from->outer.get();
      frame->slots.push_back(from->slots[size_t(slot.outer.slot)]);
    } else {
      frame->slots.push_back(Value(Type::undefined, nullptr));
    }
  }
  return frame;
}

Machine::Flow Machine::run(const Body& body, const FramePtr& frame) {
  for (const StatementPtr& statement : body)
    if (const Flow flow = run(*statement, frame); flow != Flow::on) return flow;
  return Flow::on;
}

Machine::Flow Machine::run(const Statement& s, const FramePtr& frame) {
  using Kind = Statement::Kind;
  const Level level(*this);
  heap_.step();
  line_ = s.line;
  switch (s.kind) {
    case Kind::text: emit(s.text); return Flow::on;
    case Kind::print:
      if (const Value value = evaluate(*s.value, frame); value.is_string())
        emit(value.text());
      else
        emit(printed(*this, value));
      return Flow::on;
    case Kind::condition: return run_condition(s, frame);
    case Kind::loop: return run_loop(s, frame, evaluate(*s.value, frame), 0);
    case Kind::assign: assign(*s.target, frame, evaluate(*s.value, frame)); return Flow::on;
    case Kind::assign_block:
    case Kind::filter_block: return run_block(s, frame);
    case Kind::macro: frame->slots[size_t(s.place.slot)] = make_macro(*s.macro, frame); return Flow::on;  // stored in its own frame
    case Kind::call_block: run_call(s, frame); return Flow::on;
    case Kind::with: return run_with(s, frame);
    case Kind::generation: run_generation(s, frame); return Flow::on;
    case Kind::leave: return Flow::leave;
    case Kind::next: return Flow::next;
  }
  return Flow::on;
}

Machine::Flow Machine::run_condition(const Statement& s, const FramePtr& frame) {
  for (const Branch& branch : s.branches)
    if (!branch.test || truthy(evaluate(*branch.test, frame))) return run(branch.body, frame);
  return Flow::on;
}

namespace {

// The elements of a loop that pass its `if`, tested when they are asked for: the body may change what the test sees.
struct Tested : Iterator {
  bool next(Value& element) override {
    while (chat::next(*heap_of, elements, element))
      if (passes(element)) return true;
    return false;
  }
  Heap* heap_of = nullptr;
  Value elements;
  std::function<bool(const Value&)> passes;
};

}  // namespace

Machine::Flow Machine::run_loop(const Statement& s, const FramePtr& frame, const Value& iterable, int64_t depth) {
  auto loop = std::make_shared<Loop>();
  loop->elements = iterate(heap_, iterable);
  loop->known_length = s.test ? -1 : length_of(iterable);
  loop->depth0 = depth;
  loop->statement = &s;
  loop->frame = frame;
  if (s.test) {
    auto tested = std::make_shared<Tested>();
    tested->heap_of = &heap_;
    tested->elements = loop->elements;
    tested->passes = [this, &s, &frame](const Value& element) {
      const FramePtr inside = enter(s.test_scope, frame);
      assign(*s.target, inside, element);
      return truthy(evaluate(*s.test, inside));
    };
    loop->elements = heap_.keep(Type::iterator, std::move(tested), sizeof(Tested), 1);
  }
  const Value variable = heap_.keep(Type::object, loop, sizeof(Loop), 1);
  struct Closing {
    ~Closing() { loop.close(); }
    Loop& loop;
  } closing{*loop};

  bool finished_one = false;  // Jinja runs `else` when no iteration reached its end, be it because each one was left by continue
  while (loop->advance()) {
    heap_.step();
    const FramePtr inside = enter(s.scope, frame);
    inside->slots[size_t(s.loop.slot)] = variable;
    assign(*s.target, inside, loop->current);
    const Flow flow = run(s.body, inside);
    if (flow == Flow::leave) break;
    finished_one |= flow == Flow::on;
  }
  if (finished_one || s.other.empty()) return Flow::on;
  return run(s.other, enter(s.other_scope, frame));
}

Machine::Flow Machine::run_block(const Statement& s, const FramePtr& frame) {
  const FramePtr inside = enter(s.scope, frame);
  Value text;
  {
    Capture capture(*this);
    if (const Flow flow = run(s.body, inside); flow != Flow::on) return flow;
    text = heap_.string(capture.text);
  }
  if (s.value) {
    const Value* before = std::exchange(block_text_, &text);
    const Value filtered = evaluate(*s.value, inside);
    block_text_ = before;
    text = filtered;
  }
  if (s.kind == Statement::Kind::filter_block)
    emit(printed(*this, text));
  else
    assign(*s.target, frame, text);
  return Flow::on;
}

Machine::Flow Machine::run_with(const Statement& s, const FramePtr& frame) {
  const FramePtr inside = enter(s.scope, frame);
  for (size_t i = 0; i < s.targets.size(); ++i) assign(*s.targets[i], inside, evaluate(*s.values[i], frame));
  return run(s.body, inside);
}

void Machine::run_call(const Statement& s, const FramePtr& frame) {
  const Value caller = make_macro(*s.macro, frame);
  emit(printed(*this, evaluate_call(*s.value, frame, &caller)));
}

// A generation block inside another one is part of it.
void Machine::run_generation(const Statement& s, const FramePtr& frame) {
  const size_t first = out_->size();
  const bool inside = std::exchange(generating_, true);
  run(s.macro->body, enter(s.macro->scope, frame));
  generating_ = inside;
  if (inside) return;
  if (out_ == &rendered_.text)
    rendered_.generated.emplace_back(first, out_->size());
  else
    rendered_.generated_exact = false;
}

void Machine::assign(const Expression& target, const FramePtr& frame, const Value& value) {
  if (target.kind == Expression::Kind::name) {
    Frame* to = frame.get();
    for (int i = 0; i < target.place.scopes; ++i) to = to->outer.get();
    to->slots[size_t(target.place.slot)] = value;
    return;
  }
  if (target.kind == Expression::Kind::member) {
    const Value names = evaluate(*target.parts[0], frame);
    auto* found = names.is(Type::object) ? dynamic_cast<Namespace*>(&names.native()) : nullptr;
    if (!found) wrong("cannot assign an attribute of a value that is not a namespace");
    heap_.step(int64_t(found->members.size() / 4));
    return found->set(target.name, value);
  }
  const std::vector<Value> items = collected(heap_, value);
  const size_t count = target.parts.size();
  if (items.size() < count) wrong("not enough values to unpack (expected ", count, ", got ", items.size(), ")");
  if (items.size() > count) wrong("too many values to unpack (expected ", count, ")");
  for (size_t i = 0; i < count; ++i) assign(*target.parts[i], frame, items[i]);
}

}  // namespace weft::chat
