// Parses the tokens of a template into its syntax tree. The grammar is Jinja's, with the tags of transformers: break, continue, generation.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/check.h"
#include "weft/chat/lexer.h"
#include "weft/chat/syntax.h"

namespace weft::chat {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& file, const TemplateLimits& limits)
      : tokens_(std::move(tokens)), file_(file), limits_(limits) {}

  SyntaxTree parse();

 private:
  using Kind = Expression::Kind;

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& take();
  bool at_symbol(std::string_view symbol) const { return current().kind == Token::Kind::symbol && current().text == symbol; }
  bool at_name(std::string_view name) const { return current().kind == Token::Kind::name && current().text == name; }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect_name(std::string_view name);
  void expect(Token::Kind kind, std::string_view what);
  std::string any_name();
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorCode::bad_file, file_, "line ", current().line, ": ", parts...);
  }

  // Statements (parser_statements.cpp).
  Body body_until(std::initializer_list<std::string_view> ends);
  Body block_body(std::initializer_list<std::string_view> ends);  // after the tag's own text, up to one of the end tags
  void finish_block(std::string_view end, Body& body);
  StatementPtr statement();
  StatementPtr statement(Statement::Kind kind) const;
  StatementPtr parse_for();
  StatementPtr parse_if();
  StatementPtr parse_set();
  StatementPtr parse_macro();
  StatementPtr parse_call();
  StatementPtr parse_generation();
  StatementPtr parse_filter_block();
  StatementPtr parse_with();
  StatementPtr parse_print();
  StatementPtr parse_loop_control();
  void signature(MacroSyntax& macro);
  void macro_body(MacroSyntax& macro, std::string_view end);
  ExpressionPtr target(bool with_members, bool until_in = false);
  void check_target(const Expression& target) const;

  // Expressions (parser_expressions.cpp).
  ExpressionPtr make(Kind kind, int line, std::vector<ExpressionPtr> parts = {}) const;
  ExpressionPtr binary(Operator operation, int line, ExpressionPtr left, ExpressionPtr right) const;
  ExpressionPtr tuple(bool conditional, std::string_view end = {}, bool in_parentheses = false);
  ExpressionPtr target_tuple(bool with_members, bool until_in);
  ExpressionPtr collected_tuple(std::vector<ExpressionPtr> parts, bool is_tuple, bool in_parentheses, int line);
  bool at_tuple_end(std::string_view end) const;
  ExpressionPtr expression(bool conditional = true);
  ExpressionPtr conditional();
  ExpressionPtr logical_or();
  ExpressionPtr logical_and();
  ExpressionPtr logical_not();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concat();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filter = true);
  ExpressionPtr primary(bool with_members = false);
  ExpressionPtr name_or_word(bool with_members);
  ExpressionPtr number();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr of);
  ExpressionPtr filters_and_tests(ExpressionPtr of);
  ExpressionPtr subscript(ExpressionPtr of);
  ExpressionPtr index_or_slice(ExpressionPtr of);
  ExpressionPtr filter_chain(ExpressionPtr of, bool inline_start = false);
  ExpressionPtr test(ExpressionPtr of);
  std::unique_ptr<CallArguments> call_arguments();

  // One level of brackets or statements while it lives.
  struct Level {
    explicit Level(Parser& parser);
    ~Level() { --parser.level_; }
    Parser& parser;
  };

  std::vector<Token> tokens_;
  const std::string& file_;
  const TemplateLimits& limits_;
  Heap heap_;  // of constants
  size_t at_ = 0;
  int level_ = 0;
  int loops_ = 0;                     // around the current place, inside the current macro
  std::vector<MacroSyntax*> macros_;  // around the current place
  bool generation_blocks_ = false;
};

// The tree with its names bound to places. Throws bad_file or unsupported with `file`, the line and the construct.
SyntaxTree parse_template(std::string_view source, const std::string& file, const TemplateLimits& limits);

// Binds names to slots of frames, with Jinja's scopes (scopes.cpp).
void bind_names(SyntaxTree& tree, const std::string& file);

}  // namespace weft::chat
