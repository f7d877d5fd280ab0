// Postfix operators of an expression: attributes, items and slices, calls, filters, tests.
#include "weft/base/check.h"
#include "weft/chat/parser.h"

namespace weft::chat {
namespace {

using TokenKind = Token::Kind;

std::vector<ExpressionPtr> one(ExpressionPtr part) {
  std::vector<ExpressionPtr> all;
  all.push_back(std::move(part));
  return all;
}

}  // namespace

ExpressionPtr Parser::postfix(ExpressionPtr of) {
  for (;;) {
    if (at_symbol(".") || at_symbol("[")) {
      of = subscript(std::move(of));
    } else if (at_symbol("(")) {
      const int line = current().line;
      auto arguments = call_arguments();
      of = make(Kind::call, line, one(std::move(of)));
      of->arguments = std::move(arguments);
    } else {
      return of;
    }
  }
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr of) {
  for (;;) {
    if (at_symbol("|")) {
      of = filter_chain(std::move(of));
    } else if (at_name("is")) {
      of = test(std::move(of));
    } else if (at_symbol("(")) {
      of = postfix(std::move(of));
    } else {
      return of;
    }
  }
}

ExpressionPtr Parser::subscript(ExpressionPtr of) {
  const int line = current().line;
  if (skip_symbol("[")) {
    const Level level(*this);
    of = index_or_slice(std::move(of));
    expect_symbol("]");
    return of;
  }
  take();
  if (current().kind == TokenKind::name) {
    ExpressionPtr made = make(Kind::attribute, line, one(std::move(of)));
    made->name = take().text;
    return made;
  }
  if (current().kind != TokenKind::integer) refuse("expected a name or a number after '.', got ", described(current()));
  std::vector<ExpressionPtr> parts = one(std::move(of));
  parts.push_back(number());
  return make(Kind::item, line, std::move(parts));
}

ExpressionPtr Parser::index_or_slice(ExpressionPtr of) {
  const int line = current().line;
  std::vector<ExpressionPtr> parts = one(std::move(of));
  if (at_symbol("]")) {  // x[]: an empty tuple as the index
    parts.push_back(make(Kind::tuple, line));
    return make(Kind::item, line, std::move(parts));
  }
  const auto at_end = [&] { return at_symbol("]") || at_symbol(",") || at_symbol(":"); };
  ExpressionPtr first = at_symbol(":") ? nullptr : expression();
  if (!at_symbol(":")) {
    if (at_symbol(",")) {
      std::vector<ExpressionPtr> indices = one(std::move(first));
      while (skip_symbol(",")) indices.push_back(expression());
      first = make(Kind::tuple, line, std::move(indices));
    }
    parts.push_back(std::move(first));
    return make(Kind::item, line, std::move(parts));
  }
  take();
  parts.push_back(std::move(first));
  parts.push_back(at_end() ? nullptr : expression());
  parts.push_back(skip_symbol(":") && !at_end() ? expression() : nullptr);
  if (at_symbol(",")) refuse("slices in several dimensions have no meaning here");
  return make(Kind::slice, line, std::move(parts));
}

std::unique_ptr<CallArguments> Parser::call_arguments() {
  const Level level(*this);
  auto arguments = std::make_unique<CallArguments>();
  expect_symbol("(");
  bool first = true;
  while (!at_symbol(")")) {
    if (!first) expect_symbol(",");
    if (at_symbol(")")) break;
    first = false;
    const bool named = current().kind == TokenKind::name && ahead().kind == TokenKind::symbol && ahead().text == "=";
    const bool starred = at_symbol("*"), double_starred = at_symbol("**");
    const bool late = arguments->more_named != nullptr || (starred && arguments->more_positional) ||
                      (!named && !starred && !double_starred && (arguments->more_positional || !arguments->named.empty()));
    if (late) refuse("an argument stands after one that must come later");
    if (starred || double_starred) {
      take();
      (starred ? arguments->more_positional : arguments->more_named) = expression();
    } else if (named) {
      std::string name = take().text;
      take();
      arguments->named.emplace_back(std::move(name), expression());
    } else {
      arguments->positional.push_back(expression());
    }
  }
  expect_symbol(")");
  return arguments;
}

ExpressionPtr Parser::filter_chain(ExpressionPtr of, bool inline_start) {
  while (inline_start || skip_symbol("|")) {
    inline_start = false;
    const int line = current().line;
    std::string name = any_name();
    while (skip_symbol(".")) name.append(1, '.').append(any_name());
    auto arguments = at_symbol("(") ? call_arguments() : std::make_unique<CallArguments>();
    of = make(Kind::filter, line, one(std::move(of)));
    of->name = std::move(name);
    of->arguments = std::move(arguments);
  }
  return of;
}

ExpressionPtr Parser::test(ExpressionPtr of) {
  const int line = take().line;
  const bool negated = skip_name("not");
  std::string name = any_name();
  while (skip_symbol(".")) name.append(1, '.').append(any_name());
  auto arguments = std::make_unique<CallArguments>();
  const TokenKind kind = current().kind;
  const bool starts_value = kind == TokenKind::name || kind == TokenKind::string || kind == TokenKind::integer ||
                            kind == TokenKind::number || at_symbol("[") || at_symbol("{");
  if (at_symbol("(")) {
    arguments = call_arguments();
  } else if (starts_value && !at_name("else") && !at_name("or") && !at_name("and")) {
    if (at_name("is")) refuse("tests cannot follow each other with 'is'");
    arguments->positional.push_back(postfix(primary()));
  }
  of = make(Kind::test, line, one(std::move(of)));
  of->name = std::move(name);
  of->arguments = std::move(arguments);
  return negated ? make(Kind::logical_not, line, one(std::move(of))) : std::move(of);
}

}  // namespace weft::chat
