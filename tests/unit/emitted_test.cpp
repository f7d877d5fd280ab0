// Compiles and runs the emitted C++ text and compares it with the graph. CUDA and Metal text has the same structure from the same
// emitter.
#include <gtest/gtest.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cmath>
#include <functional>
#include <map>

#include "tests/unit/expression_cases.h"
#include "tests/unit/random_expression.h"
#include "weft/expr/evaluate.h"

namespace bias_add_text {
#include "tests/golden/expr/bias_add.cpp"
}
namespace row_scale_text {
#include "tests/golden/expr/row_scale.cpp"
}
namespace mixed_dtypes_text {
#include "tests/golden/expr/mixed_dtypes.cpp"
}
namespace adam_text {
#include "tests/golden/expr/adam.cpp"
}
namespace swiglu_text {
#include "tests/golden/expr/swiglu.cpp"
}
namespace swiglu_backward_text {
#include "tests/golden/expr/swiglu_backward.cpp"
}
namespace select_and_clamp_text {
#include "tests/golden/expr/select_and_clamp.cpp"
}

namespace weft::expr {
namespace {

constexpr int64_t kRows = 3, kColumns = 37;
constexpr float kParameters[] = {0.01f, 0.9f, 0.99f};

float as_float(DType dtype, const void* p) {
  if (dtype == DType::bf16) return float(*static_cast<const bf16*>(p));
  if (dtype == DType::f16) return float(*static_cast<const f16*>(p));
  return *static_cast<const float*>(p);
}

// An operand of kRows by kColumns elements; its rows are `stride` apart (0: all the same row).
struct Array {
  DType dtype;
  bool along = true;
  int64_t stride = kColumns;
  std::vector<std::byte> bytes = std::vector<std::byte>(size_t(count() * size_of(dtype)));

  int64_t count() const { return (kRows - 1) * stride + (along ? kColumns : 1); }
  float at(int64_t row, int64_t column) const {
    return as_float(dtype, bytes.data() + (row * stride + (along ? column : 0)) * size_of(dtype));
  }
  void set(int64_t i, float value) {
    if (dtype == DType::f32) reinterpret_cast<float*>(bytes.data())[i] = value;
    if (dtype == DType::bf16) reinterpret_cast<bf16*>(bytes.data())[i] = bf16(value);
    if (dtype == DType::f16) reinterpret_cast<f16*>(bytes.data())[i] = f16(value);
  }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes.data());
  }
};

struct Arrays {
  std::vector<Array> x, y;
};

// Runs the text on random values and compares each element with the graph in float64. `strides` has the distance of the rows of an input if
// it is not kColumns.
void run(const char* case_name, const std::map<size_t, int64_t>& strides, const std::function<void(Arrays&)>& call) {
  SCOPED_TRACE(case_name);
  for (const EmitCase& c : emit_cases()) {
    if (c.name != case_name) continue;
    RandomExpression random(7);
    Arrays arrays;
    for (const Operand& o : c.signature.inputs) {
      const auto stride = strides.find(arrays.x.size());
      Array a{o.dtype, o.along, stride == strides.end() ? kColumns : stride->second};
      for (int64_t i = 0; i < a.count(); ++i) a.set(i, std::fabs(random.number()) + 0.01f);
      arrays.x.push_back(std::move(a));
    }
    for (DType dtype : c.signature.outputs) arrays.y.push_back({dtype});
    call(arrays);
    const std::vector<double> parameters(kParameters, kParameters + c.graph.parameters);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t column = 0; column < kColumns; ++column) {
        std::vector<double> in;
        for (const Array& x : arrays.x) in.push_back(x.at(row, column));
        const std::vector<double> want = evaluate(c.graph, in, parameters);
        for (size_t j = 0; j < want.size(); ++j) {
          // A few f32 roundings of values near 1, and the rounding to bf16.
          const double unit = arrays.y[j].dtype == DType::bf16 ? 0x1p-8 : 0x1p-20;
          const double got = arrays.y[j].at(row, column);
          const bool same =
              std::isnan(want[j]) ? std::isnan(got) : got == want[j] || std::fabs(got - want[j]) <= unit * (1 + std::fabs(want[j]));
          EXPECT_TRUE(same) << row << ", " << column << ": " << got << ", not " << want[j];
        }
      }
    return;
  }
  FAIL() << "no such case";
}

TEST(Emitted, text_computes_the_graph) {
  run("bias_add", {{1, 0}}, [](Arrays& a) {
    bias_add_text::bias_add(a.x[0].as<float>(), a.x[1].as<float>(), a.y[0].as<float>(),
                            {kRows * kColumns, kColumns, kColumns, 0, {kRows}, {{kColumns}, {0}, {kColumns}}});
  });
  run("row_scale", {{1, 1}}, [](Arrays& a) {
    row_scale_text::row_scale(a.x[0].as<float>(), a.x[1].as<float>(), a.y[0].as<float>(),
                              {kRows * kColumns, kColumns, kColumns, 0, {kRows}, {{kColumns}, {1}, {kColumns}}});
  });
  run("mixed_dtypes", {{2, 0}}, [](Arrays& a) {
    namespace t = mixed_dtypes_text;
    t::mixed_dtypes(
        a.x[0].as<t::bf16>(), a.x[1].as<_Float16>(), a.x[2].as<float>(), a.y[0].as<float>(), a.y[1].as<t::bf16>(),
        {kRows * kColumns, kColumns, kColumns, 0, {1, kRows}, {{0, kColumns}, {0, kColumns}, {0, 0}, {0, kColumns}, {0, kColumns}}});
  });
  run("adam", {}, [](Arrays& a) {
    adam_text::adam(a.x[0].as<float>(), a.x[1].as<float>(), a.x[2].as<float>(), a.x[3].as<float>(), a.y[0].as<float>(), a.y[1].as<float>(),
                    a.y[2].as<float>(), {kRows * kColumns, kRows * kColumns, kRows * kColumns, 0},
                    {kParameters[0], kParameters[1], kParameters[2]});
  });
  run("swiglu", {}, [](Arrays& a) {
    namespace t = swiglu_text;
    t::swiglu(a.x[0].as<t::bf16>(), a.x[1].as<t::bf16>(), a.y[0].as<t::bf16>(), {kRows * kColumns, kRows * kColumns, kRows * kColumns, 0});
  });
  run("swiglu_backward", {}, [](Arrays& a) {
    swiglu_backward_text::swiglu_backward(a.x[0].as<float>(), a.x[1].as<float>(), a.x[2].as<float>(), a.y[0].as<float>(),
                                          a.y[1].as<float>(), {kRows * kColumns, kRows * kColumns, kRows * kColumns, 0});
  });
  run("select_and_clamp", {}, [](Arrays& a) {
    select_and_clamp_text::select_and_clamp(a.x[0].as<float>(), a.x[1].as<float>(), a.y[0].as<float>(),
                                            {kRows * kColumns, kRows * kColumns, kRows * kColumns, 0});
  });
}

// An output may alias a full input.
TEST(Emitted, in_place) {
  std::vector<float> g = {0.5f, -1.5f, 2.0f}, u = {1.0f, 2.0f, -3.0f}, dy = {1.0f, 0.5f, 0.25f}, dg(3), du(3);
  swiglu_backward_text::swiglu_backward(g.data(), u.data(), dy.data(), dg.data(), du.data(), {3, 3, 3, 0});
  swiglu_backward_text::swiglu_backward(g.data(), u.data(), dy.data(), g.data(), u.data(), {3, 3, 3, 0});
  EXPECT_EQ(g, dg);
  EXPECT_EQ(u, du);
}

// The text rounds to bf16 like the library, for every class of values.
TEST(Emitted, rounding_to_bf16_is_to_nearest_even) {
  RandomExpression random(3);
  std::vector<uint32_t> patterns = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001,
                                    0x3f808000, 0x3f818000, 0x7f7fffff, 1,          0x007fffff};
  for (int i = 0; i < 10000; ++i) patterns.push_back(uint32_t(random.below(0x7fffffff)) << (i & 1));
  for (uint32_t bits : patterns) {
    mixed_dtypes_text::bf16 got;
    mixed_dtypes_text::store(std::bit_cast<float>(bits), &got);
    EXPECT_EQ(got.bits, bf16(std::bit_cast<float>(bits)).bits) << std::hex << bits;
  }
}

}  // namespace
}  // namespace weft::expr
