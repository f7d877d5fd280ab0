// Emitted text against golden files. After an intended change, rewrite them and read the difference:
//   WEFT_REWRITE_GOLDEN=1 build/tests/emit_test && git diff tests/golden/expr
#include "weft/expr/emit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/unit/expression_cases.h"
#include "tests/unit/random_expression.h"

namespace weft::expr {
namespace {

struct Language {
  Dialect dialect;
  const char* extension;
};
constexpr Language kLanguages[] = {{Dialect::cuda, ".cu"}, {Dialect::msl, ".metal"}, {Dialect::c, ".cpp"}};

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Emit, golden_text) {
  const std::filesystem::path folder = WEFT_GOLDEN_EXPR;
  const bool rewrite = std::getenv("WEFT_REWRITE_GOLDEN") != nullptr;
  std::set<std::string> known;
  for (const EmitCase& c : emit_cases())
    for (const Language& language : kLanguages) {
      const std::string text = emit(c.graph, c.signature, language.dialect, c.name);
      known.insert(c.name + language.extension);
      if (rewrite) std::ofstream(folder / (c.name + language.extension)) << text;
      EXPECT_EQ(read(folder / (c.name + language.extension)), text) << c.name << language.extension;
    }
  for (const auto& file : std::filesystem::directory_iterator(folder))
    EXPECT_TRUE(known.contains(file.path().filename().string())) << file.path() << " belongs to no case";
}

TEST(Emit, same_graph_same_text) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const auto text = [&] {
      RandomExpression random(seed);
      return emit(simplify(trace([&](Expr x, Expr y) { return random.tree({x, y}, 6); })), {{{}, {}}, {DType::f32}}, Dialect::cuda);
    };
    EXPECT_EQ(text(), text());
  }
}

TEST(Emit, vectors_and_layout_words) {
  const Signature f32{{{}}, {DType::f32}}, bf16{{{DType::bf16}}, {DType::f32}};
  EXPECT_EQ(vector_width(f32, Dialect::cuda), 4);
  EXPECT_EQ(vector_width(bf16, Dialect::cuda), 8);
  EXPECT_EQ(vector_width(bf16, Dialect::msl), 1);
  EXPECT_EQ(words({.columns = 11, .aligned = true, .past_caches = false, .extent = {}, .stride = {}}, 4),
            (std::vector<int64_t>{3, 3, 11, 1}));
  EXPECT_EQ(words({.columns = 11, .aligned = false, .past_caches = true, .extent = {2, 5}, .stride = {{60, 12}, {0, 11}}}, 8),
            (std::vector<int64_t>{20, 2, 11, 0, 2, 5, 60, 12, 0, 11}));
  EXPECT_THROW(words({.columns = 1, .aligned = false, .past_caches = true, .extent = {int64_t(1) << 32}, .stride = {{1}}}, 1), Error);
}

TEST(Emit, rejects_bad_signatures) {
  const Graph f = trace([](Expr x, Expr y) { return x + y; });
  EXPECT_THROW(emit(f, {{{}}, {DType::f32}}, Dialect::cuda), Error);
  EXPECT_THROW(emit(f, {{{}, {}}, {}}, Dialect::cuda), Error);
  EXPECT_THROW(emit(f, {{{}, {DType::i32}}, {DType::f32}}, Dialect::cuda), Error);
  EXPECT_THROW(emit(f, {{{}, {}}, {DType::u8}}, Dialect::cuda), Error);
}

}  // namespace
}  // namespace weft::expr
