// The CUDA text compiles with NVRTC for compute_90, which needs no GPU.
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <string>

#include "tests/unit/expression_cases.h"
#include "tests/unit/random_expression.h"

namespace weft::expr {
namespace {

// PTX, or a failed expectation with the compiler's log.
std::string compile(const std::string& text) {
  nvrtcProgram program;
  EXPECT_EQ(nvrtcCreateProgram(&program, text.c_str(), "weft.cu", 0, nullptr, nullptr), NVRTC_SUCCESS);
  const char* options[] = {"--gpu-architecture=compute_90", "--std=c++17", "--fmad=false"};
  const nvrtcResult result = nvrtcCompileProgram(program, 3, options);
  size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  std::string log(size, ' '), ptx;
  nvrtcGetProgramLog(program, log.data());
  EXPECT_EQ(result, NVRTC_SUCCESS) << log << "\n" << text;
  EXPECT_EQ(log.find("warning"), std::string::npos) << log << "\n" << text;
  if (result == NVRTC_SUCCESS && nvrtcGetPTXSize(program, &size) == NVRTC_SUCCESS) {
    ptx.resize(size);
    nvrtcGetPTX(program, ptx.data());
  }
  nvrtcDestroyProgram(&program);
  return ptx;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(Nvrtc, every_golden_case_compiles) {
  for (const EmitCase& c : emit_cases()) {
    SCOPED_TRACE(c.name);
    EXPECT_TRUE(has(compile(emit(c.graph, c.signature, Dialect::cuda, c.name)), ".entry"));
  }
}

TEST(Nvrtc, random_expressions_compile) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    RandomExpression random(seed);
    const Graph f = simplify(trace([&](Expr x, Expr y, Param p) {
      const std::vector<Expr> leaves = {x, y, p};
      return std::pair(random.tree(leaves, 6), random.tree(leaves, 6));
    }));
    compile(emit(f, {{{DType::bf16}, {DType::f16}}, {DType::f32, DType::bf16}, 1}, Dialect::cuda));
  }
}

TEST(Nvrtc, loads_and_stores_sixteen_bytes) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(name(dtype));
    const std::string ptx = compile(emit(trace([](Expr x, Expr y) { return x + y; }), {{{dtype}, {dtype}}, {dtype}}, Dialect::cuda));
    EXPECT_TRUE(has(ptx, "ld.global.v4.") || has(ptx, "ld.global.nc.v4.") || has(ptx, "ld.global.v2.b64")) << ptx;
    EXPECT_TRUE(has(ptx, "st.global.v4.") || has(ptx, "st.global.v2.b64")) << ptx;
  }
}

TEST(Nvrtc, no_implicit_contraction) {
  const Signature signature{{{}, {}}, {DType::f32, DType::f32}};
  const auto shared_product = [](Expr x, Expr y) { return std::pair(x * y + x, x * y); };
  EXPECT_FALSE(has(compile(emit(simplify(trace(shared_product)), signature, Dialect::cuda)), "fma.rn.f32"));
  const auto single_use = [](Expr x, Expr y) { return std::pair(x * y + x, y); };
  EXPECT_TRUE(has(compile(emit(simplify(trace(single_use)), signature, Dialect::cuda)), "fma.rn.f32"));
}

}  // namespace
}  // namespace weft::expr
