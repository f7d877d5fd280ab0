#include <charconv>
#include <cstdlib>

#include "weft/base/check.h"
#include "weft/chat/parser.h"

namespace weft::chat {
namespace {

using TokenKind = Token::Kind;

template <class... Parts>
std::vector<ExpressionPtr> row(Parts&&... parts) {
  std::vector<ExpressionPtr> all;
  (all.push_back(std::forward<Parts>(parts)), ...);
  return all;
}

int height(const ExpressionPtr& part) { return part ? part->height : 0; }

}  // namespace

ExpressionPtr Parser::make(Kind kind, int line, std::vector<ExpressionPtr> parts) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  for (const ExpressionPtr& part : parts) made->height = std::max(made->height, height(part) + 1);
  if (made->height > limits_.tree)
    fail(ErrorCode::bad_file, file_, "line ", line, ": an expression of more than ", limits_.tree, " operations in a row");
  made->parts = std::move(parts);
  return made;
}

ExpressionPtr Parser::binary(Operator operation, int line, ExpressionPtr left, ExpressionPtr right) const {
  auto made = make(Kind::binary, line, row(std::move(left), std::move(right)));
  made->operation = operation;
  return made;
}

bool Parser::at_tuple_end(std::string_view end) const {
  if (current().kind == TokenKind::print_end || current().kind == TokenKind::block_end || at_symbol(")")) return true;
  return !end.empty() && at_name(end);
}

// `a, b`: a tuple where a comma follows, else the expression itself.
ExpressionPtr Parser::tuple(bool conditional, std::string_view end, bool in_parentheses) {
  const int line = current().line;
  std::vector<ExpressionPtr> parts;
  bool is_tuple = false;
  for (;;) {
    if (!parts.empty()) expect_symbol(",");
    if (at_tuple_end(end)) break;
    parts.push_back(expression(conditional));
    if (!at_symbol(",")) break;
    is_tuple = true;
  }
  return collected_tuple(std::move(parts), is_tuple, in_parentheses, line);
}

ExpressionPtr Parser::target_tuple(bool with_members, bool until_in) {
  const int line = current().line;
  std::vector<ExpressionPtr> parts;
  bool is_tuple = false;
  for (;;) {
    if (!parts.empty()) expect_symbol(",");
    if (at_tuple_end(until_in ? "in" : "")) break;
    parts.push_back(primary(with_members));
    if (!at_symbol(",")) break;
    is_tuple = true;
  }
  return collected_tuple(std::move(parts), is_tuple, false, line);
}

ExpressionPtr Parser::collected_tuple(std::vector<ExpressionPtr> parts, bool is_tuple, bool in_parentheses, int line) {
  if (!is_tuple && !parts.empty()) return std::move(parts[0]);
  if (!is_tuple && !in_parentheses) refuse("expected an expression, got ", described(current()));
  return make(Kind::tuple, line, std::move(parts));
}

ExpressionPtr Parser::expression(bool with_condition) {
  const Level level(*this);
  return with_condition ? conditional() : logical_or();
}

ExpressionPtr Parser::conditional() {
  int line = current().line;
  ExpressionPtr value = logical_or();
  while (skip_name("if")) {
    ExpressionPtr test = logical_or(), otherwise;
    if (skip_name("else")) otherwise = expression();
    value = make(Kind::conditional, line, row(std::move(test), std::move(value), std::move(otherwise)));
    line = current().line;
  }
  return value;
}

ExpressionPtr Parser::logical_or() {
  const int line = current().line;
  ExpressionPtr left = logical_and();
  while (skip_name("or")) left = make(Kind::logical_or, line, row(std::move(left), logical_and()));
  return left;
}

ExpressionPtr Parser::logical_and() {
  const int line = current().line;
  ExpressionPtr left = logical_not();
  while (skip_name("and")) left = make(Kind::logical_and, line, row(std::move(left), logical_not()));
  return left;
}

ExpressionPtr Parser::logical_not() {
  const int line = current().line;
  int count = 0;
  while (skip_name("not")) ++count;
  ExpressionPtr value = comparison();
  for (; count > 0; --count) value = make(Kind::logical_not, line, row(std::move(value)));
  return value;
}

ExpressionPtr Parser::comparison() {
  static constexpr std::pair<std::string_view, Relation> kRelations[] = {{"==", Relation::equal},  {"!=", Relation::unequal},
                                                                         {"<", Relation::less},    {"<=", Relation::less_equal},
                                                                         {">", Relation::greater}, {">=", Relation::greater_equal}};
  const int line = current().line;
  std::vector<ExpressionPtr> parts = row(sum());
  std::vector<Relation> relations;
  for (;;) {
    size_t before = relations.size();
    for (const auto& [symbol, relation] : kRelations)
      if (relations.size() == before && skip_symbol(symbol)) relations.push_back(relation);
    if (relations.size() == before && skip_name("in")) relations.push_back(Relation::in);
    if (relations.size() == before && at_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      at_ += 2;
      relations.push_back(Relation::not_in);
    }
    if (relations.size() == before) break;
    parts.push_back(sum());
  }
  if (relations.empty()) return std::move(parts[0]);
  auto made = make(Kind::compare, line, std::move(parts));
  made->relations = std::move(relations);
  return made;
}

ExpressionPtr Parser::sum() {
  const int line = current().line;
  ExpressionPtr left = concat();
  for (;;) {
    if (skip_symbol("+"))
      left = binary(Operator::add, line, std::move(left), concat());
    else if (skip_symbol("-"))
      left = binary(Operator::subtract, line, std::move(left), concat());
    else
      return left;
  }
}

ExpressionPtr Parser::concat() {
  const int line = current().line;
  std::vector<ExpressionPtr> parts = row(product());
  while (skip_symbol("~")) parts.push_back(product());
  return parts.size() == 1 ? std::move(parts[0]) : make(Kind::concat, line, std::move(parts));
}

ExpressionPtr Parser::product() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"*", Operator::multiply}, {"/", Operator::divide}, {"//", Operator::floor_divide}, {"%", Operator::modulo}};
  const int line = current().line;
  ExpressionPtr left = power();
  for (bool more = true; more;) {
    more = false;
    for (const auto& [symbol, operation] : kOperators)
      if (!more && skip_symbol(symbol)) {
        left = binary(operation, line, std::move(left), power());
        more = true;
      }
  }
  return left;
}

ExpressionPtr Parser::power() {
  const int line = current().line;
  ExpressionPtr left = unary();
  while (skip_symbol("**")) left = binary(Operator::power, line, std::move(left), unary());
  return left;
}

ExpressionPtr Parser::unary(bool with_filter) {
  const int line = current().line;
  ExpressionPtr value;
  if (at_symbol("-") || at_symbol("+")) {
    const Level level(*this);
    const Kind kind = take().text == "-" ? Kind::negate : Kind::plus;
    value = make(kind, line, row(unary(false)));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filter ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr Parser::primary(bool with_members) {
  const Token& token = current();
  if (token.kind == TokenKind::name) return name_or_word(with_members);
  if (token.kind == TokenKind::integer || token.kind == TokenKind::number) return number();
  if (token.kind == TokenKind::string) {
    ExpressionPtr made = make(Kind::constant, token.line);
    std::string text;
    while (current().kind == TokenKind::string) text += take().text;
    made->value = heap_.string(std::move(text));
    return made;
  }
  if (skip_symbol("(")) {
    const Level level(*this);
    ExpressionPtr inside = tuple(true, {}, /*in_parentheses=*/true);
    expect_symbol(")");
    return inside;
  }
  if (at_symbol("[")) return list();
  if (at_symbol("{")) return dict();
  refuse("expected an expression, got ", described(token));
}

ExpressionPtr Parser::name_or_word(bool with_members) {
  const int line = current().line;
  const std::string name = take().text;
  if (name == "true" || name == "True" || name == "false" || name == "False" || name == "none" || name == "None") {
    ExpressionPtr made = make(Kind::constant, line);
    if (name != "none" && name != "None") made->value = Value(name == "true" || name == "True");
    return made;
  }
  ExpressionPtr made = make(Kind::name, line);
  made->name = name;
  for (MacroSyntax* macro : macros_) {
    macro->uses_caller |= name == "caller";
    macro->uses_kwargs |= name == "kwargs";
    macro->uses_varargs |= name == "varargs";
  }
  if (!with_members || !skip_symbol(".")) return made;
  ExpressionPtr member = make(Kind::member, line, row(std::move(made)));
  member->name = any_name();
  return member;
}

ExpressionPtr Parser::number() {
  ExpressionPtr made = make(Kind::constant, current().line);
  const Token& token = take();
  if (token.kind == TokenKind::number) {
    made->value = Value(std::strtod(token.text.c_str(), nullptr));
    return made;
  }
  std::string_view digits = token.text;
  const char prefix = digits.size() > 1 && digits[0] == '0' ? char(digits[1] | 0x20) : ' ';
  const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
  if (base != 10) digits.remove_prefix(2);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) refuse("the number ", token.text, " does not fit 64 bits");
  made->value = Value(value);
  return made;
}

ExpressionPtr Parser::list() {
  const Level level(*this);
  const int line = take().line;
  std::vector<ExpressionPtr> parts;
  while (!at_symbol("]")) {
    if (!parts.empty()) expect_symbol(",");
    if (at_symbol("]")) break;
    parts.push_back(expression());
  }
  expect_symbol("]");
  return make(Kind::list, line, std::move(parts));
}

ExpressionPtr Parser::dict() {
  const Level level(*this);
  const int line = take().line;
  std::vector<ExpressionPtr> parts;
  while (!at_symbol("}")) {
    if (!parts.empty()) expect_symbol(",");
    if (at_symbol("}")) break;
    parts.push_back(expression());
    expect_symbol(":");
    parts.push_back(expression());
  }
  expect_symbol("}");
  return make(Kind::dict, line, std::move(parts));
}

}  // namespace weft::chat
