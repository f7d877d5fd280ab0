#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/activation_truth.h"
#include "weft/ops/matmul/problems.h"
#include "weft/tensor/node.h"

namespace weft::spec::matmul_problems {
namespace {

// Sums over k, and of magnitudes: alpha a b + beta c + bias for one row of c.
struct RowSums {
  std::vector<double> value, scale;
};
RowSums row_sums(const Setup& s, const Truth& t, int64_t g, int64_t m) {
  const auto [M, N, K] = s.size;
  RowSums r{std::vector<double>(size_t(N), 0), std::vector<double>(size_t(N), 0)};
  const Array &a = t["a"], &b = t["b"];
  for (int64_t k = 0; k < K; ++k) {
    const double x = s.alpha * a[s.a_at(g, m, k)];
    for (int64_t n = 0; n < N; ++n) {
      const double term = x * b[s.b_at(g, n, k)];
      r.value[size_t(n)] += term;
      r.scale[size_t(n)] += std::abs(term);
    }
  }
  for (int64_t n = 0; n < N; ++n) {
    const double more[] = {s.beta != 0 ? s.beta * t["c"][s.c_at(g, m, n)] : 0, s.bias ? t["bias"][n] : 0};
    for (double term : more) {
      r.value[size_t(n)] += term;
      r.scale[size_t(n)] += std::abs(term);
    }
  }
  return r;
}

// A chain of K fused steps, then beta c, alpha and bias.
double roundings(const Setup& s) { return double(s.size.K) + 3; }

// TF32 keeps 10 bits of fraction: each operand is off by less than 2^-10 of itself, whether rounded or cut.
constexpr double kTf32 = 0x1p-9 + 0x1p-20;

// The slopes of silu and gelu_tanh stay below 1.13, their second derivatives below 1.
constexpr double kSteepest = 1.13, kCurvature = 1;

void add_operands(Problem& p, const Setup& s) {
  p.input("a", s.in, s.a_shape(), s.a, s.layout).input("b", s.in, s.b_shape(), normal(), s.layout);
  if (s.bias) p.input("bias", s.bias_dtype, {s.size.N}, normal());
}

}  // namespace

Problem forward(const Setup& s) {
  Problem p;
  add_operands(p, s);
  if (s.beta != 0)
    p.in_place("c", s.out, s.c_shape(), normal(), s.layout);
  else
    p.output("c", s.out, s.c_shape(), s.layout);
  if (s.keep_pre) p.output("pre", s.out, s.c_shape(), s.layout);
  p.launches<MatmulArgs>(matmul, [=](MatmulArgs& args) {
    args.transpose_a = s.transpose_a;
    args.transpose_b = s.transpose_b;
    args.alpha = s.alpha;
    args.beta = s.beta;
    args.activation = s.activation;
    args.precision = s.precision;
  });
  p.reference = [=](Truth& t) {
    Array& c = t[s.beta != 0 ? result("c") : "c"];
    for (int64_t g = 0; g < s.matrices(); ++g)
      for (int64_t m = 0; m < s.size.M; ++m) {
        const RowSums sums = row_sums(s, t, g, m);
        for (int64_t n = 0; n < s.size.N; ++n) {
          const int64_t i = s.c_at(g, m, n);
          const double value = sums.value[size_t(n)], scale = sums.scale[size_t(n)];
          const double error = growth(roundings(s)) * unit_roundoff(DType::f32) * scale;
          if (s.keep_pre) t["pre"].expect(i, value, scale, roundings(s));
          if (s.activation == Activation::none) {
            c.expect(i, value, scale, roundings(s));
            if (s.precision == Precision::tf32) c.allow_narrow(i, scale, kTf32);
          } else {
            const ActivationTruth f = activation_truth(s.activation, value);
            c.expect_within(i, f.y, kSteepest * error + f.y_error);
          }
        }
      }
  };
  return p;
}

// f'(x) of a bf16 kernel may have an additional error of kSlopeError, because it uses approximate exponentials and reciprocals.
Problem times_slope(const Setup& s) {
  constexpr double kSlopeError = 0x1p-17;
  Problem p;
  add_operands(p, s);
  p.output("c", s.out, s.c_shape(), s.layout).input("slope_of", s.out, s.c_shape(), s.a, s.layout);
  if (s.column_sums) p.output("column_sums", DType::f32, {s.size.N});
  p.launches<MatmulArgs>(matmul, [=](MatmulArgs& args) {
    args.transpose_a = s.transpose_a;
    args.transpose_b = s.transpose_b;
    args.activation = s.activation;
    args.any_order = true;
  });
  p.reference = [=](Truth& t) {
    const double u = unit_roundoff(DType::f32), rounded = s.out == DType::bf16 ? unit_roundoff(DType::bf16) : 0;
    std::vector<double> sum(size_t(s.size.N), 0), size = sum, error = sum;
    for (int64_t g = 0; g < s.matrices(); ++g)
      for (int64_t m = 0; m < s.size.M; ++m) {
        const RowSums sums = row_sums(s, t, g, m);
        for (int64_t n = 0; n < s.size.N; ++n) {
          const int64_t i = s.c_at(g, m, n);
          const double value = sums.value[size_t(n)], scale = sums.scale[size_t(n)];
          const ActivationTruth f = activation_truth(s.activation, t["slope_of"][i]);
          const double c = value * f.slope, slope_error = f.slope_error + f.slope_flush + (s.in == DType::bf16 ? kSlopeError : 0);
          // Errors of the sum, of its rounding if it is stored first, of f'(x) and of the multiplication.
          const double c_error = std::abs(f.slope) * (growth(roundings(s)) * u * scale + 1.01 * rounded * std::abs(value)) +
                                 1.01 * std::abs(value) * slope_error + 2 * u * std::abs(c);
          t["c"].expect_within(i, c, c_error);
          sum[size_t(n)] += c;
          size[size_t(n)] += std::abs(c);
          error[size_t(n)] += c_error + rounded * std::abs(c);
        }
      }
    if (!s.column_sums) return;
    const double length = double(s.matrices() * s.size.M);
    for (size_t n = 0; n < sum.size(); ++n) {
      t["column_sums"].expect_within(int64_t(n), sum[n], 1.01 * error[n] + growth(length + 2) * u * size[n]);
    }
  };
  return p;
}

namespace {

void gradient_reference(const Setup& s, Truth& t) {
  const auto [M, N, K] = s.size;
  const double u = unit_roundoff(DType::f32), rounded = s.in == DType::bf16 ? unit_roundoff(DType::bf16) : 0;
  const auto magnitudes = [](const Array& like) { return std::vector<double>(like.v.size(), 0); };
  std::vector<double> da = magnitudes(t["da"]), db = magnitudes(t["db"]), dbias(size_t(N), 0);  // sums of magnitudes
  std::vector<double> ea = da, eb = db, ebias = dbias;                                          // errors that came in with d
  for (int64_t g = 0; g < s.matrices(); ++g)
    for (int64_t m = 0; m < M; ++m) {
      const RowSums sums = row_sums(s, t, g, m);
      for (int64_t n = 0; n < N; ++n) {
        // d = dc f'(pre): pre errs by its sum and its storage, and moves the slope by that much times f''; at relu's
        // corner it may take the other side. Then a product and, in bf16, a rounding.
        const double dc = t["dc"][s.c_at(g, m, n)], pre = sums.value[size_t(n)];
        const ActivationTruth f = activation_truth(s.activation, pre);
        const double pre_error = s.activation == Activation::none ? 0
                                                                  : growth(roundings(s)) * u * sums.scale[size_t(n)] +
                                                                        (s.out == DType::bf16 ? rounded : 0) * std::abs(pre);
        const double step = s.activation == Activation::relu ? double(std::abs(pre) <= pre_error) : kCurvature * pre_error;
        const double d = dc * f.slope, error = std::abs(dc) * (step + f.slope_error) + (rounded + 2 * u) * std::abs(d);
        for (int64_t k = 0; k < K; ++k) {
          const size_t i = size_t(s.a_at(g, m, k)), j = size_t(s.b_at(g, n, k));
          const double a = t["a"].v[i], b = t["b"].v[j];
          t["da"].v[i] += d * b;
          da[i] += std::abs(d * b);
          ea[i] += error * std::abs(b);
          t["db"].v[j] += d * a;
          db[j] += std::abs(d * a);
          eb[j] += error * std::abs(a);
        }
        if (!s.bias) continue;
        t["dbias"].v[size_t(n)] += d;
        dbias[size_t(n)] += std::abs(d);
        ebias[size_t(n)] += error;
      }
    }
  const int64_t rows = M * s.matrices();
  const auto expect = [&](Array& out, const std::vector<double>& scale, const std::vector<double>& error, int64_t length) {
    for (size_t i = 0; i < out.v.size(); ++i) {
      out.expect_within(int64_t(i), out.v[i], 1.01 * error[i] + growth(double(length) + 2) * u * scale[i]);
      if (s.precision == Precision::tf32) out.allow_narrow(int64_t(i), scale[i], kTf32);
    }
  };
  expect(t["da"], da, ea, N);
  expect(t["db"], db, eb, s.shared_b ? rows : M);
  if (s.bias) expect(t["dbias"], dbias, ebias, rows);
}

double gradient_loss(const Setup& s, const Truth& t) {
  double loss = 0;
  for (int64_t g = 0; g < s.matrices(); ++g)
    for (int64_t m = 0; m < s.size.M; ++m) {
      const RowSums sums = row_sums(s, t, g, m);
      for (int64_t n = 0; n < s.size.N; ++n) loss += t["dc"][s.c_at(g, m, n)] * activation_truth(s.activation, sums.value[size_t(n)]).y;
    }
  return loss;
}

}  // namespace

Problem gradients(const Setup& s) {
  Problem p;
  add_operands(p, s);
  p.input("dc", s.out, s.c_shape(), normal(), s.layout);
  p.output("da", DType::f32, s.a_shape()).output("db", DType::f32, s.b_shape());
  if (s.bias) p.output("dbias", DType::f32, {s.size.N});
  p.run = [=](Stream&, const Bound& bound) {
    const auto leaf = [&](const char* name) { return bound.tensor(name).detach().set_requires_grad(); };
    const Tensor a = leaf("a"), b = leaf("b"), bias = s.bias ? leaf("bias") : Tensor();
    const Tensor c = matmul(a, b,
                            {.transpose_a = s.transpose_a,
                             .transpose_b = s.transpose_b,
                             .bias = bias,
                             .activation = s.activation,
                             .out_dtype = s.out,
                             .precision = s.precision});
    const std::vector<Tensor> grads = c.node()->backward({{bound.tensor("dc")}, {true, true, s.bias}});
    copy(grads[0], bound.tensor("da"));
    copy(grads[1], bound.tensor("db"));
    if (s.bias) copy(grads[2], bound.tensor("dbias"));
  };
  p.reference = [=](Truth& t) { gradient_reference(s, t); };
  p.loss = [=](const Truth& t) { return gradient_loss(s, t); };
  p.derivatives = {{"a", "da"}, {"b", "db"}};
  if (s.bias) p.derivatives.push_back({"bias", "dbias"});
  return p;
}

Problem two_halves(const Setup& s, int64_t first) {
  Problem p = forward(s);
  p.output("c2", s.out, s.c_shape());
  const auto whole = p.run;
  p.run = [=](Stream& stream, const Bound& b) {
    whole(stream, b);
    const auto half = [&](int64_t from, int64_t to, float beta) {
      const Tensor a = b.tensor("a").part(s.transpose_a ? -2 : -1, from, to), other = b.tensor("b").part(s.transpose_b ? -1 : -2, from, to);
      matmul(stream, {.a = a.view(),
                      .b = other.view(),
                      .c = b.mut("c2"),
                      .bias = {},
                      .pre = {},
                      .transpose_a = s.transpose_a,
                      .transpose_b = s.transpose_b,
                      .beta = beta});
    };
    half(0, first, 0);
    half(first, s.size.K, 1);
    if (!stream.device().traits().matmul_in_order) return;
    check(b.tensor("c").to_host<float>() == b.tensor("c2").to_host<float>(), "check", "two calls gave other bits than one");
  };
  const auto reference = p.reference;
  p.reference = [=](Truth& t) {
    reference(t);
    t["c2"] = t["c"];
  };
  return p;
}

}  // namespace weft::spec::matmul_problems
