// Errors of templates: one sentence with the template, the line and what is wrong. (What templates render to is in chat_golden_test.)
#include "weft/chat/chat_template.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/observed.h"
#include "weft/chat/conversation_state.h"

namespace weft {
namespace {

using chat::ChatTemplate;

std::string render(const std::string& text, const std::string& variables = "{}") {
  chat::Variables values;
  const chat::Value given = chat::parse_value(variables, "variables");
  for (const auto& [name, value] : given.dict().entries) values.emplace_back(name.text(), value);
  return ChatTemplate(text, "folder/chat_template.jinja").render(values, 0).text;
}

ErrorCode code_of(const std::string& text) {
  try {
    render(text);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error: " << text;
  return ErrorCode::out_of_memory;
}

std::string error_of(const std::string& text) {
  return message_of([&] { render(text); });
}

TEST(ChatTemplate, syntax_errors_name_template_line_and_what) {
  const std::string in = "folder/chat_template.jinja: line ";
  EXPECT_EQ(error_of("a\n{{ 1 + }}"), in + "2: expected an expression, got '}}'");
  EXPECT_EQ(error_of("{% for x in y %}\n\n"), in + "2: the template ends without {% endfor %}");
  EXPECT_EQ(error_of("{% if x %}\n{% endfor %}"), in + "2: unknown or misplaced tag {% endfor %}");
  EXPECT_EQ(error_of("\n\n{% nosuch %}"), in + "3: unknown or misplaced tag {% nosuch %}");
  EXPECT_EQ(error_of("{{ 'open }}"), in + "1: a string has no closing '");
  EXPECT_EQ(error_of("{{ (1 }}"), in + "1: unexpected '}'");
  EXPECT_EQ(error_of("{{ a ? b }}"), in + "1: unexpected character '?'");
  EXPECT_EQ(error_of("{# open"), in + "1: a comment {# has no end #}");
  EXPECT_EQ(error_of("{% raw %}"), in + "1: {% raw %} has no {% endraw %}");
  EXPECT_EQ(error_of("{{ x"), in + "1: the template ends inside {{ }}");
  EXPECT_EQ(error_of("{% set 1 = 2 %}"), in + "1: only names can be assigned to");
  EXPECT_EQ(error_of("{% break %}"), in + "1: {% break %} outside a loop");
  EXPECT_EQ(error_of("{{ f(a=1, 2) }}"), in + "1: an argument stands after one that must come later");
  EXPECT_EQ(error_of("{{ 99999999999999999999 }}"), in + "1: the number 99999999999999999999 does not fit 64 bits");
  EXPECT_EQ(error_of("\xff"), "folder/chat_template.jinja: is not UTF-8 at byte 0");
  for (const char* text : {"{{ 1 + }}", "{% for x in y %}", "{% nosuch %}", "\xff"}) EXPECT_EQ(code_of(text), ErrorCode::bad_file) << text;
}

TEST(ChatTemplate, unsupported_constructs_are_named) {
  const std::string in = "folder/chat_template.jinja: line ";
  EXPECT_EQ(error_of("\n{% include 'x' %}"), in + "2: the tag {% include %} is not supported");
  EXPECT_EQ(error_of("{% extends 'x' %}"), in + "1: the tag {% extends %} is not supported");
  EXPECT_EQ(error_of("{% from 'x' import y %}"), in + "1: the tag {% from %} is not supported");
  EXPECT_EQ(error_of("{% block x %}{% endblock %}"), in + "1: the tag {% block %} is not supported");
  EXPECT_EQ(error_of("\n{{ 'x'|urlize }}"), in + "2: the filter 'urlize' is not known");
  EXPECT_EQ(error_of("{{ 'x' is nosuch }}"), in + "1: the test 'nosuch' is not known");
  EXPECT_EQ(error_of("{{ 'x'.encode() }}"), in + "1: the method str.encode() is not supported");
  EXPECT_EQ(error_of("{{ lipsum() }}"), in + "1: the function lipsum() is not supported");
  for (const char* text : {"{% include 'x' %}", "{{ 'x'|urlize }}", "{{ 'x' is nosuch }}", "{{ 'x'.encode() }}", "{{ lipsum() }}"})
    EXPECT_EQ(code_of(text), ErrorCode::unsupported) << text;
}

TEST(ChatTemplate, errors_of_running_name_the_line) {
  const std::string in = "folder/chat_template.jinja: line ";
  EXPECT_EQ(error_of("a\nb\n{{ x.y }}"), in + "3: 'x' is undefined");
  EXPECT_EQ(error_of("{{ {}.a.b }}"), in + "1: 'dict object' has no attribute 'a'");
  EXPECT_EQ(error_of("{{ [1][5] + 1 }}"), in + "1: list object has no element 5");
  EXPECT_EQ(error_of("{{ 'a' + 1 }}"), in + "1: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(error_of("{% set l = [] %}\n{{ l.append(1) }}"), in + "2: access to attribute 'append' of 'list' object is unsafe.");
  EXPECT_EQ(error_of("{{ 2 ** 63 }}"), in + "1: an integer does not fit 64 bits");
  EXPECT_EQ(error_of("{{ 9223372036854775807 + 1 }}"), in + "1: an integer does not fit 64 bits");
  EXPECT_EQ(error_of("{% macro m(a) %}{{ a.b.c }}{% endmacro %}\n{{ m({}) }}"), in + "1: 'dict object' has no attribute 'b'");
  EXPECT_EQ(code_of("{{ x.y }}"), ErrorCode::invalid_argument);
}

TEST(ChatTemplate, raise_exception_is_one_sentence) {
  EXPECT_EQ(error_of("\n{{ raise_exception('Roles must alternate.') }}"),
            "folder/chat_template.jinja: the template refuses this conversation (line 2): Roles must alternate.");
  EXPECT_EQ(code_of("{{ raise_exception('x') }}"), ErrorCode::invalid_argument);
}

// A name that only a branch assigns starts with the variable of the context; one that is assigned in any case starts undefined.
TEST(ChatTemplate, scopes) {
  EXPECT_EQ(render("{% if x == 0 %}{% set x = 5 %}{% endif %}{{ x }}", R"({"x": 1})"), "1");
  EXPECT_EQ(render("{% macro m() %}[{{ x }}]{% endmacro %}{{ m() }}{% set x = 5 %}{{ m() }}", R"({"x": 1})"), "[][5]");
  EXPECT_EQ(render("{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}", R"({"x": 9})"), "91929");
  EXPECT_EQ(render("{% for i in [1] %}{% macro m() %}{{ i }}{{ y }}{% endmacro %}{% set y = 7 %}{{ m() }}{% endfor %}"), "17");
  EXPECT_EQ(render("{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}"), "1False");
}

TEST(ChatTemplate, names_of_other_scripts) { EXPECT_EQ(render("{% set größe = 3 %}{{ größe }}"), "3"); }

// A loop that is kept in a namespace after its end still answers, and refers to nothing.
TEST(ChatTemplate, a_loop_outlives_its_end) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% for x in [1, 2] %}{% set ns.l = loop %}{% set ns.c = loop.cycle %}{% endfor %}"
                   "{{ ns.l.index }}{{ ns.c('a', 'b') }}{{ ns.l.last }}{{ ns.l.nextitem is defined }}"),
            "2bTrueFalse");
}

TEST(ChatTemplate, namespaces_may_refer_to_each_other) {
  EXPECT_EQ(render("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{% set a.l = [a, b] %}{{ a.b.a.b.a.l|length }}"),
            "2");
  EXPECT_NE(error_of("{% set a = namespace() %}{% set a.a = a %}{{ a }}").find("calls itself too deeply"), std::string::npos);
}

TEST(ChatTemplate, threads_share_a_template) {
  const ChatTemplate shared("{% for i in range(200) %}{{ text ~ i }}{% endfor %}", "shared");
  chat::Heap heap;
  const chat::Variables variables = {{"text", heap.string("x")}};
  const std::string expected = shared.render(variables, 0).text;
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::string& result : results) threads.emplace_back([&] { result = shared.render(variables, 0).text; });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace weft
