// A template is untrusted: whatever it does ends with one error in bounded time and memory.
#include <gtest/gtest.h>

#include "tests/unit/observed.h"
#include "weft/chat/chat_template.h"

namespace weft {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// Small, so that the tests are fast; ordinary_templates_are_far_from_them has the real ones.
chat::TemplateLimits small_limits() {
  chat::TemplateLimits limits;
  limits.steps = 1'000'000;
  limits.memory_bytes = size_t(16) << 20;
  limits.output_bytes = size_t(4) << 20;
  return limits;
}

void expect_limit(const std::string& text, const std::string& reason) {
  try {
    const auto rendered = chat::ChatTemplate(text, "t", small_limits()).render({}, 0);
    ADD_FAILURE() << "no error: " << text.substr(0, 100) << " -> " << rendered.text.size() << " bytes";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    EXPECT_EQ(error.code(), ErrorCode::bad_file) << error.what();
  }
}

const std::string kSteps = "steps; does it loop for ever?", kMemory = "MiB for its values", kOutput = "the template writes more than",
                  kDeep = "calls itself too deeply", kNested = "levels deep", kLarge = "elements";

TEST(ChatLimits, loops_that_do_not_end) {
  expect_limit("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", kSteps);
  expect_limit("{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}", kSteps);
  expect_limit("{% for a in range(99999) %}{% set x = range(99999)|list|length %}{% endfor %}", kSteps);
  expect_limit("{% for a in range(99999) %}{% set x = 5 in range(9, 99999) %}{% endfor %}", kSteps);
  expect_limit("{% for a in range(99999) %}{% set x = range(9999)|map('string')|list %}{% endfor %}", kSteps);
}

// Work on large texts costs steps, however few operations it takes.
TEST(ChatLimits, work_on_large_texts) {
  for (const char* work : {"s|upper", "s|replace('a', 'b')", "s.split('x')", "s|reverse", "s|length ~ s", "s == s ~ ''", "s.find('b')",
                           "s|tojson", "s in s", "s|trim"})
    expect_limit("{% set s = 'a' * 300000 %}{% for a in range(90000) %}{% set x = " + std::string(work) + " %}{% endfor %}", kSteps);
}

TEST(ChatLimits, memory) {
  expect_limit("{{ 'x' * 10 ** 9 }}", kMemory);
  expect_limit("{{ 'x' * 9223372036854775807 }}", kMemory);
  expect_limit("{{ [1] * 10 ** 9 }}", kMemory);
  expect_limit("{{ 'x'.center(10 ** 12) }}", kMemory);
  expect_limit("{{ '%999999999d' % 5 }}", kMemory);
  expect_limit("{{ '{:999999999}'.format(5) }}", kMemory);
  expect_limit("{{ 'x\ny'|indent(10 ** 10) }}", kMemory);
  expect_limit("{{ [1]|batch(10 ** 12, 0)|list }}", kMemory);
  expect_limit("{% set ns = namespace(s='xxxxxxxx') %}{% for a in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", kMemory);
  expect_limit("{% set ns = namespace(l=[1]) %}{% for a in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", kMemory);
  expect_limit(
      "{% set s = 'a' * 100000 %}{% set ns = namespace(l=[]) %}{% for a in range(1000) %}{% set ns.l = ns.l + [s ~ a] %}{% endfor %}",
      kMemory);
  expect_limit("{% for a in range(99999) %}{% set x = namespace(v=a) %}{% endfor %}", kMemory);
  expect_limit("{% for a in range(99999) %}{% macro m() %}{% endmacro %}{% endfor %}", kMemory);
  expect_limit("{% set s = 'ab' * 10000 %}{{ s.replace('a', s) }}", kMemory);
}

TEST(ChatLimits, output) {
  expect_limit("{% set s = 'a' * 100000 %}{% for a in range(100) %}{{ s }}{% endfor %}", kOutput);
  expect_limit("{% set s = 'a' * 100000 %}{% set x %}{% for a in range(100) %}{{ s }}{% endfor %}{% endset %}", kOutput);
  expect_limit("{% macro m(n) %}{{ 'a' * 100000 }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", kOutput);
}

TEST(ChatLimits, depth_of_calls) {
  expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", kDeep);
  expect_limit(
      "{% macro m(l) %}{{ l|map('join')|list }}{{ caller() }}{% endmacro %}{% macro n() %}{% call m([]) %}{{ n() }}{% endcall %}{% "
      "endmacro %}{{ n() }}",
      kDeep);
  expect_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", kDeep);
}

TEST(ChatLimits, depth_of_values) {
  expect_limit("{% set ns = namespace(l=[]) %}{% for a in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}", kNested);
  expect_limit("{% set ns = namespace(l={}) %}{% for a in range(9999) %}{% set ns.l = {1: ns.l} %}{% endfor %}", kNested);
  expect_limit("{% set ns = namespace(l=[]) %}{% for a in range(9999) %}{% set ns.l = ns.l|map('upper') %}{% endfor %}", kNested);
  expect_limit("{% set ns = namespace(l=[]) %}{% for a in range(9999) %}{% set ns.l = cycler(ns.l).next %}{% endfor %}", kNested);
}

// [x, x] of [x, x] of ... has 2^n elements in n lists.
TEST(ChatLimits, values_that_double) {
  const std::string doubled =
      "{% set ns = namespace(l=[1], m=[1]) %}{% for a in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = (ns.m, ns.m) %}{% endfor "
      "%}";
  expect_limit(doubled, kLarge);
  const std::string large =
      "{% set ns = namespace(l=[1], m=[1]) %}{% for a in range(16) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor "
      "%}";
  expect_limit(large + "{% for a in range(9999) %}{% set x = ns.l == ns.m %}{% endfor %}", kSteps);
  expect_limit(large + "{% for a in range(9999) %}{% set x = ns.l|string %}{% endfor %}", kSteps);
}

TEST(ChatLimits, nesting_of_the_source) {
  expect_limit("{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}", kNested);
  expect_limit("{{ " + repeated("[", 5000) + "1" + repeated("]", 5000) + " }}", kNested);
  expect_limit("{{ " + repeated("-", 5000) + "1 }}", kNested);
  expect_limit("{{ " + repeated("1 if 1 else ", 5000) + "1 }}", kNested);
  expect_limit("{{ 1" + repeated(" + 1", 5000) + " }}", "operations in a row");
  expect_limit("{{ " + repeated("not ", 5000) + "1 }}", "operations in a row");
  expect_limit("{{ x" + repeated(".x", 5000) + " }}", "operations in a row");
  expect_limit("{{ x" + repeated("|trim", 5000) + " }}", "operations in a row");
  expect_limit(repeated("{% if 1 %}", 5000) + repeated("{% endif %}", 5000), kNested);
  expect_limit(repeated("{% for x in [1] %}", 5000) + repeated("{% endfor %}", 5000), kNested);
  expect_limit(repeated("{% set x = 1 %}", 50000), "bytes of template, the limit is");
}

// The real limits end a template that loops for ever, too.
TEST(ChatLimits, real_limits) {
  const std::string endless = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  EXPECT_NE(message_of([&] { chat::ChatTemplate(endless, "t").render({}, 0); }).find(kSteps), std::string::npos);
  EXPECT_NE(message_of([&] { chat::ChatTemplate("{{ 'x' * 10 ** 9 }}", "t").render({}, 0); }).find(kMemory), std::string::npos);
}

// Large templates within the limits are rendered: a list of many elements, a chain of tests, a long text.
TEST(ChatLimits, ordinary_templates_are_far_from_them) {
  const auto text = [](const std::string& source) { return chat::ChatTemplate(source, "t").render({}, 0).text; };
  EXPECT_EQ(text("{{ range(100000)|sum }}"), "4999950000");
  EXPECT_EQ(text("{{ ('x' * 10000000)|length }}"), "10000000");
  EXPECT_EQ(text("{{ 1" + repeated(" + 1", 300) + " }}"), "301");
  EXPECT_EQ(
      text("{% macro m(n) %}{% if n > 0 %}{% for x in [1] %}{{ m(n - 1) }}{% endfor %}{% else %}end{% endif %}{% endmacro %}{{ m(90) }}"),
      "end");
}

}  // namespace
}  // namespace weft
