#include <algorithm>

#include "weft/base/check.h"
#include "weft/chat/parser.h"

namespace weft::chat {
namespace {

using TokenKind = Token::Kind;

constexpr std::string_view kUnsupported[] = {"include", "import", "from", "extends", "block", "autoescape", "do", "trans", "debug"};

}  // namespace

Parser::Level::Level(Parser& parser) : parser(parser) {
  if (++parser.level_ <= parser.limits_.nesting) return;
  --parser.level_;
  parser.refuse("brackets and statements are nested more than ", parser.limits_.nesting, " levels deep");
}

const Token& Parser::take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }

bool Parser::skip_symbol(std::string_view symbol) { return at_symbol(symbol) && (take(), true); }
bool Parser::skip_name(std::string_view name) { return at_name(name) && (take(), true); }

void Parser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) refuse("expected '", symbol, "', got ", described(current()));
}
void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) refuse("expected '", name, "', got ", described(current()));
}
void Parser::expect(Token::Kind kind, std::string_view what) {
  if (current().kind != kind) refuse("expected ", what, ", got ", described(current()));
  take();
}
std::string Parser::any_name() {
  if (current().kind != TokenKind::name) refuse("expected a name, got ", described(current()));
  return take().text;
}

SyntaxTree Parser::parse() {
  SyntaxTree tree;
  tree.body = body_until({});
  tree.generation_blocks = generation_blocks_;
  return tree;
}

StatementPtr Parser::statement(Statement::Kind kind) const {
  auto made = std::make_unique<Statement>();
  made->kind = kind;
  made->line = current().line;
  return made;
}

// Statements and text up to one of the end tags (which stays the current token) or, without end tags, to the end.
Body Parser::body_until(std::initializer_list<std::string_view> ends) {
  const Level level(*this);
  Body body;
  for (;;) {
    const Token& token = current();
    if (token.kind == TokenKind::end) {
      if (ends.size() > 0) refuse("the template ends without {% ", *ends.begin(), " %}");
      return body;
    }
    if (token.kind == TokenKind::data) {
      body.push_back(statement(Statement::Kind::text));
      body.back()->text = take().text;
    } else if (token.kind == TokenKind::print_begin) {
      body.push_back(statement(Statement::Kind::print));
      take();
      body.back()->value = tuple(true);
      expect(TokenKind::print_end, "'}}'");
    } else {
      expect(TokenKind::block_begin, "'{%'");
      if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return at_name(end); })) return body;
      if (auto made = statement()) body.push_back(std::move(made));
      expect(TokenKind::block_end, "'%}'");
    }
  }
}

Body Parser::block_body(std::initializer_list<std::string_view> ends) {
  skip_symbol(":");
  expect(TokenKind::block_end, "'%}'");
  return body_until(ends);
}

void Parser::finish_block(std::string_view end, Body& body) {
  body = block_body({end});
  expect_name(end);
}

StatementPtr Parser::statement() {
  if (current().kind != TokenKind::name) refuse("expected the name of a tag, got ", described(current()));
  const std::string& tag = current().text;
  if (tag == "for") return parse_for();
  if (tag == "if") return parse_if();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call();
  if (tag == "generation") return parse_generation();
  if (tag == "filter") return parse_filter_block();
  if (tag == "with") return parse_with();
  if (tag == "print") return parse_print();
  if (tag == "break" || tag == "continue") return parse_loop_control();
  if (std::find(std::begin(kUnsupported), std::end(kUnsupported), tag) != std::end(kUnsupported))
    fail(ErrorCode::unsupported, file_, "line ", current().line, ": the tag {% ", tag, " %} is not supported");
  refuse("unknown or misplaced tag {% ", tag.substr(0, 60), " %}");
}

StatementPtr Parser::parse_for() {
  auto made = statement(Statement::Kind::loop);
  take();
  made->target = target(/*with_members=*/false, /*until_in=*/true);
  expect_name("in");
  made->value = tuple(/*conditional=*/false, "recursive");
  if (skip_name("if")) made->test = expression();
  made->recursive = skip_name("recursive");
  ++loops_;
  made->body = block_body({"endfor", "else"});
  --loops_;
  if (take().text == "else") finish_block("endfor", made->other);
  return made;
}

StatementPtr Parser::parse_if() {
  auto made = statement(Statement::Kind::condition);
  take();
  for (;;) {
    Branch branch;
    branch.test = tuple(/*conditional=*/false);
    branch.body = block_body({"endif", "elif", "else"});
    made->branches.push_back(std::move(branch));
    const std::string tag = take().text;
    if (tag == "endif") return made;
    if (tag == "elif") continue;
    made->branches.emplace_back();
    finish_block("endif", made->branches.back().body);
    return made;
  }
}

StatementPtr Parser::parse_set() {
  auto made = statement(Statement::Kind::assign);
  take();
  made->target = target(/*with_members=*/true);
  if (skip_symbol("=")) {
    made->value = tuple(true);
    return made;
  }
  made->kind = Statement::Kind::assign_block;
  made->value = filter_chain(nullptr);
  finish_block("endset", made->body);
  return made;
}

StatementPtr Parser::parse_with() {
  auto made = statement(Statement::Kind::with);
  take();
  while (current().kind != TokenKind::block_end) {
    if (!made->targets.empty()) expect_symbol(",");
    made->targets.push_back(target(/*with_members=*/false));
    expect_symbol("=");
    made->values.push_back(expression());
  }
  finish_block("endwith", made->body);
  return made;
}

StatementPtr Parser::parse_print() {
  auto made = statement(Statement::Kind::print);
  take();
  std::vector<ExpressionPtr> parts;
  while (current().kind != TokenKind::block_end) {
    if (!parts.empty()) expect_symbol(",");
    parts.push_back(expression());
  }
  made->value = make(Kind::concat, made->line, std::move(parts));
  return made;
}

StatementPtr Parser::parse_loop_control() {
  if (loops_ == 0) refuse("{% ", current().text, " %} outside a loop");
  auto made = statement(current().text == "break" ? Statement::Kind::leave : Statement::Kind::next);
  take();
  return made;
}

void Parser::signature(MacroSyntax& macro) {
  const Level level(*this);
  expect_symbol("(");
  while (!at_symbol(")")) {
    if (!macro.parameters.empty()) expect_symbol(",");
    macro.parameters.push_back(any_name());
    if (skip_symbol("="))
      macro.defaults.push_back(expression());
    else if (!macro.defaults.empty())
      refuse("the parameter '", macro.parameters.back(), "' without a default follows one with a default");
  }
  expect_symbol(")");
}

void Parser::macro_body(MacroSyntax& macro, std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  macros_.push_back(&macro);
  finish_block(end, macro.body);
  macros_.pop_back();
  loops_ = loops;
}

StatementPtr Parser::parse_macro() {
  auto made = statement(Statement::Kind::macro);
  take();
  made->macro = std::make_unique<MacroSyntax>();
  made->macro->name = any_name();
  signature(*made->macro);
  macro_body(*made->macro, "endmacro");
  return made;
}

StatementPtr Parser::parse_call() {
  auto made = statement(Statement::Kind::call_block);
  take();
  made->macro = std::make_unique<MacroSyntax>();
  made->macro->name = "caller";
  if (at_symbol("(")) signature(*made->macro);
  made->value = expression();
  if (made->value->kind != Kind::call) refuse("{% call %} needs a call such as {% call name() %}");
  macro_body(*made->macro, "endcall");
  return made;
}

StatementPtr Parser::parse_generation() {
  auto made = statement(Statement::Kind::generation);
  take();
  generation_blocks_ = true;
  made->macro = std::make_unique<MacroSyntax>();
  made->macro->name = "caller";
  macro_body(*made->macro, "endgeneration");
  return made;
}

StatementPtr Parser::parse_filter_block() {
  auto made = statement(Statement::Kind::filter_block);
  take();
  made->value = filter_chain(nullptr, /*inline_start=*/true);
  finish_block("endfilter", made->body);
  return made;
}

ExpressionPtr Parser::target(bool with_members, bool until_in) {
  ExpressionPtr made = target_tuple(with_members, until_in);
  check_target(*made);
  return made;
}

void Parser::check_target(const Expression& target) const {
  if (target.kind == Kind::tuple) {
    for (const ExpressionPtr& part : target.parts) check_target(*part);
  } else if (target.kind != Kind::name && target.kind != Kind::member) {
    fail(ErrorCode::bad_file, file_, "line ", target.line, ": only names can be assigned to");
  }
}

SyntaxTree parse_template(std::string_view source, const std::string& file, const TemplateLimits& limits) {
  SyntaxTree tree = Parser(tokens_of(source, file, limits), file, limits).parse();
  bind_names(tree, file);
  return tree;
}

}  // namespace weft::chat
