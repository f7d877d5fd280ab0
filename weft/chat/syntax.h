// The syntax tree of a template: expressions, statements and the scopes of their names.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/chat/value.h"

namespace weft::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

// Place of a variable: the frame so many scopes outward, and the slot in it.
struct Place {
  int scopes = 0, slot = -1;
};

enum class Operator : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class Relation : uint8_t { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  // *list and **dict
};

struct Expression {
  enum class Kind : uint8_t {
    constant,  // value
    name,      // place
    member,    // parts[0].name, of a namespace that is assigned to: name is the attribute
    list,
    tuple,      // parts
    dict,       // parts: key, value, key, value ...
    attribute,  // parts[0].name
    item,       // parts[0][parts[1]]
    slice,      // parts[0][parts[1]:parts[2]:parts[3]], each but the first possibly null
    call,       // parts[0](arguments)
    filter,     // parts[0] | name(arguments); parts[0] is null for the text of a block
    test,       // parts[0] is name(arguments)
    negate,
    plus,
    logical_not,
    logical_and,
    logical_or,
    binary,       // parts[0] operation parts[1]
    compare,      // parts[0] relations[0] parts[1] relations[1] parts[2] ...
    concat,       // parts[0] ~ parts[1] ~ ...
    conditional,  // parts[1] if parts[0] else parts[2], possibly null
  };
  Kind kind;
  Operator operation = Operator::add;
  int line = 0;
  int height = 1;
  Place place;
  Value value;
  std::string name;
  std::vector<ExpressionPtr> parts;
  std::vector<Relation> relations;
  std::unique_ptr<CallArguments> arguments;
};

// How a slot of a frame starts.
struct Slot {
  enum class Start : uint8_t { parameter, undefined, context, outer };
  std::string name;
  Start start = Start::undefined;
  Place outer;  // the variable of an enclosing scope whose value it takes
};

// The names that a body reads from or writes to its own frame.
struct Scope {
  std::vector<Slot> slots;
};

struct Statement;
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

struct Branch {
  ExpressionPtr test;  // null: else
  Body body;
};

// A macro, or the body of a call block as its caller.
struct MacroSyntax {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Place> places;            // of the parameters
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
  Place caller, kwargs, varargs;
  Scope scope;
  Body body;
};

struct Statement {
  enum class Kind : uint8_t {
    text,          // text
    print,         // value
    condition,     // branches
    loop,          // for target in value if test: body, else other
    assign,        // target = value
    assign_block,  // target = body through value (a chain of filters, possibly null)
    macro,         // macro, stored in place
    call_block,    // value is the call, macro the caller
    filter_block,  // value is the chain of filters over body
    with,          // targets = values: body
    generation,    // macro.body, marked as said by the assistant
    leave,
    next,  // break, continue
  };
  Kind kind;
  bool recursive = false;
  int line = 0;
  std::string text;
  ExpressionPtr target, value, test;
  std::vector<Branch> branches;
  std::vector<ExpressionPtr> targets, values;
  std::unique_ptr<MacroSyntax> macro;
  Place place, loop;  // of the macro's name; of `loop`
  Scope scope, test_scope, other_scope;
  Body body, other;
};

struct SyntaxTree {
  Body body;
  Scope scope;
  bool generation_blocks = false;
};

}  // namespace weft::chat
