// Runs the syntax tree of a template. One machine renders once.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/chat/native.h"
#include "weft/chat/syntax.h"

namespace weft::chat {

// The variables of one scope while it runs.
struct Frame {
  const Scope* scope = nullptr;
  std::shared_ptr<Frame> outer;
  std::vector<Value> slots;
};
using FramePtr = std::shared_ptr<Frame>;

using Variables = std::vector<std::pair<std::string, Value>>;

struct Rendered {
  std::string text;
  std::vector<std::pair<size_t, size_t>> generated;  // first and last byte + 1 of each generation block
  bool generated_exact = true;                       // false: a generation block lies inside a macro or block, where its place is not known
};

struct Macro;
struct Loop;

class Machine {
 public:
  Machine(const SyntaxTree& tree, const Variables& variables, const TemplateLimits& limits, std::time_t now);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  Rendered run();
  int line() const { return line_; }  // being run, for messages

  // For functions, filters, tests and methods.
  Heap& heap() { return heap_; }
  std::time_t now() const { return now_; }
  Value attribute(const Value& of, std::string_view name);
  Value item(const Value& of, const Value& index);
  Value slice(const Value& of, const Value& start, const Value& stop, const Value& step);
  Value call(const Value& callee, Arguments& arguments);
  Value filter(const std::string& name, const Value& value, Arguments& arguments);
  bool test(const std::string& name, const Value& value, Arguments& arguments);
  Value call_macro(const Macro& macro, Arguments& arguments);
  Value call_loop(const Loop& loop, const Value& iterable);
  Value make_namespace(std::vector<std::pair<std::string, Value>> members);

  // One level of evaluation, or several, while it lives; throws when there are too many.
  struct Level {
    explicit Level(Machine& machine, int levels = 1);
    ~Level() { machine.depth_ -= levels; }
    Machine& machine;
    const int levels;
  };

 private:
  enum class Flow { on, leave, next };

  // Statements (statements.cpp).
  Flow run(const Body& body, const FramePtr& frame);
  Flow run(const Statement& statement, const FramePtr& frame);
  Flow run_condition(const Statement& statement, const FramePtr& frame);
  Flow run_loop(const Statement& statement, const FramePtr& frame, const Value& iterable, int64_t depth);
  Flow run_block(const Statement& statement, const FramePtr& frame);
  Flow run_with(const Statement& statement, const FramePtr& frame);
  void run_call(const Statement& statement, const FramePtr& frame);
  void run_generation(const Statement& statement, const FramePtr& frame);
  void assign(const Expression& target, const FramePtr& frame, const Value& value);
  void assign_parameters(const Macro& macro, const FramePtr& frame, Arguments& arguments);
  Value make_macro(const MacroSyntax& syntax, const FramePtr& frame);
  FramePtr enter(const Scope& scope, const FramePtr& outer);
  void emit(std::string_view text);

  // Expressions (expressions.cpp).
  Value evaluate(const Expression& expression, const FramePtr& frame);
  Value evaluate_name(const Expression& expression, const FramePtr& frame);
  Value evaluate_sequence(const Expression& expression, const FramePtr& frame);
  Value evaluate_dict(const Expression& expression, const FramePtr& frame);
  Value evaluate_slice(const Expression& expression, const FramePtr& frame);
  Value evaluate_call(const Expression& expression, const FramePtr& frame, const Value* caller = nullptr);
  Value evaluate_filter(const Expression& expression, const FramePtr& frame);
  Value evaluate_test(const Expression& expression, const FramePtr& frame);
  Value evaluate_comparison(const Expression& expression, const FramePtr& frame);
  Value evaluate_concat(const Expression& expression, const FramePtr& frame);
  Value evaluate_conditional(const Expression& expression, const FramePtr& frame);
  Arguments evaluate_arguments(const CallArguments& arguments, const FramePtr& frame);
  Value context_variable(const std::string& name) const;

  // Output goes to a buffer while it lives.
  struct Capture {
    explicit Capture(Machine& machine) : machine(machine), before(machine.out_) { machine.out_ = &text; }
    ~Capture();
    Machine& machine;
    std::string* before;
    std::string text;
  };

  const SyntaxTree& tree_;
  const TemplateLimits& limits_;
  const std::time_t now_;
  Heap heap_;  // outlives every value below
  std::unordered_map<std::string, Value> context_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::vector<std::unique_ptr<Macro>> macros_;
  Rendered rendered_;
  std::string* out_ = nullptr;
  size_t written_ = 0;                 // to the output and to all buffers
  const Value* block_text_ = nullptr;  // what a filter block or set block gives to its chain of filters
  bool generating_ = false;            // inside a generation block
  int depth_ = 0, line_ = 0;
};

// The functions that every template sees: range, namespace, raise_exception ... (functions.cpp).
void add_functions(Heap& heap, std::unordered_map<std::string, Value>& context);

// nullptr: there is none of this name.
Callable find_filter(std::string_view name);
Callable find_test(std::string_view name);

// The method of a value; undefined if its type has none of this name.
Value method(Machine& machine, const Value& self, std::string_view name);

}  // namespace weft::chat
