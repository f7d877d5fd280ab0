// Matmul with an int8 b: the reference uses the widened weights, and the bits must equal those of the matmul with these weights.
#include <cmath>

#include "weft/ops/matmul/problems.h"
#include "weft/spec/registry.h"

namespace weft::spec::matmul_problems {
namespace {

struct Int8Size {
  DType in, out;
  int64_t M, N, K;
  bool bias = false;
  Activation activation = Activation::none;
  int64_t padding = 0;  // elements after each row of b and of the scales; -1: pads to a multiple of 16 bytes, as in a model

  int64_t groups() const { return (K + kInt8Group - 1) / kInt8Group; }
  int64_t numbers_row() const { return padding < 0 ? (K + 15) / 16 * 16 : K + padding; }
  int64_t scales_row() const { return padding < 0 ? (groups() + 7) / 8 * 8 : groups() + padding; }
};

// Pseudorandom numbers and scales; the inputs b and its weights in a's dtype are made from them.
int number(int64_t n, int64_t k) { return int((n * 73 + k * 31 + (n * 7 + 3) * (k % 97) * 13) % 255) - 127; }
double scale(int64_t n, int64_t g) { return double(8 + (n * 7 + g * 5) % 29) * 0x1p-12; }
double weight(int64_t n, int64_t k) { return number(n, k) * scale(n, k / kInt8Group); }

void reference(const Int8Size& s, Truth& t) {
  for (int64_t m = 0; m < s.M; ++m)
    for (int64_t n = 0; n < s.N; ++n) {
      double value = s.bias ? t["bias"][n] : 0, size = std::abs(value);
      for (int64_t k = 0; k < s.K; ++k) {
        const double term = t["a"][m * s.K + k] * t["w"][n * s.K + k];
        value += term;
        size += std::abs(term);
      }
      if (s.activation == Activation::relu) value = std::max(0.0, value);
      t["c"].expect(m * s.N + n, value, size, double(s.K) + 3);
    }
  t["alone"] = t["c"];
}

Problem int8(const Int8Size& s) {
  Problem p;
  const int64_t numbers_row = s.numbers_row(), scales_row = s.scales_row();
  p.input("a", s.in, {s.M, s.K}, normal());
  p.input("b", DType::u8, {s.N, numbers_row},
          [=](PhiloxStream&, int64_t i) { return double(uint8_t(int8_t(number(i / numbers_row, i % numbers_row)))); });
  p.input("scales", DType::f16, {s.N, scales_row}, [=](PhiloxStream&, int64_t i) { return scale(i / scales_row, i % scales_row); });
  p.input("w", s.in, {s.N, s.K}, [=](PhiloxStream&, int64_t i) { return weight(i / s.K, i % s.K); });
  if (s.bias) p.input("bias", DType::f32, {s.N}, normal());
  p.output("c", s.out, {s.M, s.N}).output("alone", s.out, {s.M, s.N});
  const auto args = [=](const Bound& b) {
    return MatmulArgs{.a = b.view("a"),
                      .b = part(b.view("b"), 1, 0, s.K),
                      .c = b.mut("c"),
                      .bias = s.bias ? b.view("bias") : View{},
                      .pre = {},
                      .transpose_b = true,
                      .activation = s.activation,
                      .scales = part(b.view("scales"), 1, 0, s.groups())};
  };
  p.run = [=](Stream& stream, const Bound& b) {
    matmul(stream, args(b));
    MatmulArgs alone = args(b);
    alone.b = b.view("w");
    alone.c = b.mut("alone");
    alone.scales = {};
    matmul(stream, alone);
    if (!stream.synchronous() || s.out != DType::f32) return;
    check(b.tensor("c").to_host<float>() == b.tensor("alone").to_host<float>(), "check",
          "int8 has other bits than the weights it stands for");
  };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { reference(s, t); };
  return p;
}

}  // namespace

void add_int8_cases(Registry& registry) {
  for (const auto& [in, out] : {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}}) {
    const auto add = [&, in = in, out = out](Int8Size s, const std::string& suffix = "") {
      s.in = in, s.out = out;
      registry.add({"matmul", "int8", in, dims({s.M, s.N, s.K}) + suffix + (in == out ? "" : "/to_f32"), [=] { return int8(s); }});
    };
    for (int64_t M : {1, 3, 4, 5, 9, 17, 33, 65, 100}) {
      add({in, out, M, 70, 96});
      for (auto [N, K] : {std::pair<int64_t, int64_t>{33, 544}, {130, 200}, {65, 1048}})
        add({in, out, M, N, K, false, Activation::none, -1}, "/aligned");
    }
    add({in, out, 2, 6500, 40, false, Activation::none, -1}, "/aligned");
    for (auto [M, N, K] : {std::array<int64_t, 3>{1, 1, 1},
                           {2, 5, 31},
                           {2, 17, 33},
                           {4, 130, 257},
                           {7, 70, 300},
                           {3, 700, 64},
                           {0, 4, 32},
                           {2, 0, 32},
                           {3, 5, 0},
                           {6, 6500, 40}})
      add({in, out, M, N, K});
    for (int64_t M : {1, 8, 40}) {
      add({in, out, M, 96, 160, true, Activation::none}, "/bias");
      add({in, out, M, 96, 160, true, Activation::relu, -1}, "/aligned_bias_relu");
      add({in, out, M, 96, 160, false, Activation::none, 16}, "/padded");
      add({in, out, M, 41, 72, false, Activation::none, 3}, "/padded_odd");
    }
  }
  for (int64_t M : {1, 512})
    registry.bench({"matmul", "int8", DType::bf16, dims({M, 2048, 2048}),
                    [=] { return int8({DType::bf16, DType::bf16, M, 2048, 2048, false, Activation::none, -1}); }});
  const auto reject = [&](const char* name, Shape b, Shape scales, MatmulOptions options, DType dtype = DType::u8) {
    registry.rejects("matmul", name, [=](Device& d) {
      MatmulOptions all = options;
      if (scales.numel() > 0) all.scales = Tensor::empty(d, scales, DType::f16);
      matmul(Tensor::empty(d, {2, 40}), Tensor::empty(d, b, dtype), all);
    });
  };
  reject("int8_without_scales", {5, 40}, {0}, {.transpose_b = true});
  reject("int8_scales_shape", {5, 40}, {5, 3}, {.transpose_b = true});
  reject("int8_stored_the_other_way", {40, 5}, {40, 1}, {});
  reject("scales_of_f32", {5, 40}, {5, 2}, {.transpose_b = true}, DType::f32);
}

}  // namespace weft::spec::matmul_problems
