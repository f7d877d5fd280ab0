// Binds each name to a slot of a frame, with the scopes of Jinja: bodies of loops, macros, call, filter, set and with blocks have frames of
// their own; the branches of an `if` share the frame around them. A name that a frame assigns starts with the value of the enclosing
// frame's variable; without one it starts undefined, or, if only a branch assigns it or it is read before, with the variable of the
// context.
#include <unordered_map>

#include "weft/base/check.h"
#include "weft/chat/parser.h"

namespace weft::chat {
namespace {

class FrameNames {
 public:
  FrameNames(Scope& scope, const FrameNames* outer) : scope_(scope), outer_(outer) {}

  void parameter(const std::string& name) {
    slot(name, Slot::Start::parameter);
    stored_[name] = true;
  }

  void load(const std::string& name) {
    if (find(name).slot < 0) slot(name, Slot::Start::context);
  }

  void store(const std::string& name, bool in_branch) {
    if (stored_[name]) return;
    stored_[name] = true;
    if (slots_.contains(name)) return;
    Place place = outer_ ? outer_->find(name) : Place{};
    ++place.scopes;
    const bool there = place.slot >= 0;
    Slot& made = slot(name, there ? Slot::Start::outer : in_branch ? Slot::Start::context : Slot::Start::undefined);
    if (there) made.outer = place;
  }

  // The innermost variable of this name; slot -1 if there is none.
  Place find(const std::string& name) const {
    Place place;
    for (const FrameNames* frame = this; frame; frame = frame->outer_, ++place.scopes)
      if (const auto found = frame->slots_.find(name); found != frame->slots_.end()) {
        place.slot = found->second;
        return place;
      }
    return {};
  }

 private:
  Slot& slot(const std::string& name, Slot::Start start) {
    const auto [at, added] = slots_.emplace(name, int(scope_.slots.size()));
    if (added) scope_.slots.push_back({.name = name, .start = start, .outer = {}});
    Slot& slot = scope_.slots[size_t(at->second)];
    slot.start = start;
    return slot;
  }

  Scope& scope_;
  const FrameNames* outer_;
  std::unordered_map<std::string, int> slots_;
  std::unordered_map<std::string, bool> stored_;
};

// First pass over the code of one frame: which names it has.
class Collector {
 public:
  explicit Collector(FrameNames& names) : names_(names) {}

  void target(const Expression& target, bool parameter) {
    if (target.kind == Expression::Kind::tuple) {
      for (const ExpressionPtr& part : target.parts) this->target(*part, parameter);
    } else if (target.kind == Expression::Kind::member) {
      names_.load(target.parts[0]->name);
    } else if (parameter) {
      names_.parameter(target.name);
    } else {
      names_.store(target.name, in_branch_ > 0);
    }
  }

  void expression(const ExpressionPtr& expression) {
    if (!expression) return;
    if (expression->kind == Expression::Kind::name) names_.load(expression->name);
    for (const ExpressionPtr& part : expression->parts) this->expression(part);
    if (const auto* arguments = expression->arguments.get()) {
      for (const ExpressionPtr& part : arguments->positional) this->expression(part);
      for (const auto& [name, part] : arguments->named) this->expression(part);
      this->expression(arguments->more_positional);
      this->expression(arguments->more_named);
    }
  }

  void body(const Body& body) {
    for (const StatementPtr& statement : body) this->statement(*statement);
  }

 private:
  void statement(const Statement& s) {
    using Kind = Statement::Kind;
    switch (s.kind) {
      case Kind::print:
      case Kind::loop:
      case Kind::call_block:
      case Kind::filter_block: expression(s.value); break;
      case Kind::condition:
        for (const Branch& branch : s.branches) {
          expression(branch.test);
          ++in_branch_;
          body(branch.body);
        }
        in_branch_ -= int(s.branches.size());
        break;
      case Kind::assign:
        expression(s.value);
        target(*s.target, false);
        break;
      case Kind::assign_block: target(*s.target, false); break;
      case Kind::macro: names_.store(s.macro->name, in_branch_ > 0); break;
      case Kind::with:
        for (const ExpressionPtr& value : s.values) expression(value);
        break;
      default: break;
    }
  }

  FrameNames& names_;
  int in_branch_ = 0;
};

// Second pass: binds the names of one frame, then the frames inside it.
class Binder {
 public:
  Binder(const FrameNames& names, const std::string& file) : names_(names), file_(file) {}

  void expression(const ExpressionPtr& expression) {
    if (!expression) return;
    if (expression->kind == Expression::Kind::name) expression->place = names_.find(expression->name);
    for (const ExpressionPtr& part : expression->parts) this->expression(part);
    if (auto* arguments = expression->arguments.get()) {
      for (const ExpressionPtr& part : arguments->positional) this->expression(part);
      for (const auto& [name, part] : arguments->named) this->expression(part);
      this->expression(arguments->more_positional);
      this->expression(arguments->more_named);
    }
  }

  void body(Body& body) {
    for (const StatementPtr& statement : body) this->statement(*statement);
  }

 private:
  void statement(Statement& s) {
    using Kind = Statement::Kind;
    switch (s.kind) {
      case Kind::print: return expression(s.value);
      case Kind::condition:
        for (Branch& branch : s.branches) {
          expression(branch.test);
          body(branch.body);
        }
        return;
      case Kind::loop: return loop(s);
      case Kind::assign: expression(s.value); return expression(s.target);
      case Kind::assign_block: expression(s.target); return block(s, /*with_value=*/true);
      case Kind::filter_block: return block(s, /*with_value=*/true);
      case Kind::with: return with(s);
      case Kind::macro: s.place = names_.find(s.macro->name); return macro(*s.macro);
      case Kind::call_block: expression(s.value); return macro(*s.macro);
      case Kind::generation: return macro(*s.macro);
      default: return;
    }
  }

  void loop(Statement& s) {
    expression(s.value);
    refuse_loop(*s.target);
    {
      FrameNames names(s.scope, &names_);
      Collector collect(names);
      names.parameter("loop");
      collect.target(*s.target, true);
      collect.body(s.body);
      Binder inside(names, file_);
      s.loop = names.find("loop");
      inside.expression(s.target);
      inside.body(s.body);
    }
    if (s.test) {
      FrameNames names(s.test_scope, &names_);
      Collector collect(names);
      names.parameter("");  // in the place of `loop`: the target's places are those of the body
      collect.target(*s.target, true);
      collect.expression(s.test);
      Binder(names, file_).expression(s.test);
    }
    if (!s.other.empty()) {
      FrameNames names(s.other_scope, &names_);
      Collector(names).body(s.other);
      Binder(names, file_).body(s.other);
    }
  }

  void refuse_loop(const Expression& target) const {
    if (target.kind == Expression::Kind::name && target.name == "loop")
      fail(ErrorCode::bad_file, file_, "line ", target.line, ": the name 'loop' cannot be a loop's variable");
    for (const ExpressionPtr& part : target.parts) refuse_loop(*part);
  }

  void block(Statement& s, bool with_value) {
    FrameNames names(s.scope, &names_);
    Collector collect(names);
    collect.body(s.body);
    if (with_value) collect.expression(s.value);
    Binder inside(names, file_);
    inside.body(s.body);
    if (with_value) inside.expression(s.value);
  }

  void with(Statement& s) {
    for (const ExpressionPtr& value : s.values) expression(value);
    FrameNames names(s.scope, &names_);
    Collector collect(names);
    for (const ExpressionPtr& target : s.targets) collect.target(*target, true);
    collect.body(s.body);
    Binder inside(names, file_);
    for (const ExpressionPtr& target : s.targets) inside.expression(target);
    inside.body(s.body);
  }

  void macro(MacroSyntax& m) {
    FrameNames names(m.scope, &names_);
    Collector collect(names);
    for (const std::string& parameter : m.parameters) names.parameter(parameter);
    for (const std::string& parameter : m.parameters) {  // a parameter of that name takes what is passed as any other does
      m.uses_caller &= parameter != "caller";
      m.uses_kwargs &= parameter != "kwargs";
      m.uses_varargs &= parameter != "varargs";
    }
    if (m.uses_caller) names.parameter("caller");
    if (m.uses_kwargs) names.parameter("kwargs");
    if (m.uses_varargs) names.parameter("varargs");
    for (const ExpressionPtr& value : m.defaults) collect.expression(value);
    collect.body(m.body);
    Binder inside(names, file_);
    for (const std::string& parameter : m.parameters) m.places.push_back(names.find(parameter));
    m.caller = names.find("caller"), m.kwargs = names.find("kwargs"), m.varargs = names.find("varargs");
    for (const ExpressionPtr& value : m.defaults) inside.expression(value);
    inside.body(m.body);
  }

  const FrameNames& names_;
  const std::string& file_;
};

}  // namespace

void bind_names(SyntaxTree& tree, const std::string& file) {
  FrameNames names(tree.scope, nullptr);
  Collector(names).body(tree.body);
  Binder(names, file).body(tree.body);
}

}  // namespace weft::chat
