#include "weft/ops/grouped_matmul/grouped_matmul.h"

#include <cmath>

#include "weft/ops/fill/fill.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Size {
  std::vector<int64_t> counts;  // rows of each expert
  int64_t K, N;
  bool transpose_b = true, bias = false;
  Layout layout = Layout::contiguous;

  int64_t experts() const { return int64_t(counts.size()); }
  int64_t rows() const {
    int64_t P = 0;
    for (int64_t count : counts) P += count;
    return P;
  }
  std::vector<double> starts() const {
    std::vector<double> ends{0};
    for (int64_t count : counts) ends.push_back(ends.back() + double(count));
    return ends;
  }
  // body(e, i) for each row
  template <class F>
  void for_each_row(const F& body) const {
    int64_t i = 0;
    for (int64_t e = 0; e < experts(); ++e)
      for (int64_t n = 0; n < counts[size_t(e)]; ++n) body(e, i++);
  }
};

void add_starts(Problem& p, const Size& s) { p.input("starts", DType::i32, {s.experts() + 1}, listed(s.starts())); }

// As matmul's: a chain of K fused steps, and the bias.
Problem forward(DType dtype, const Size& s) {
  const int64_t E = s.experts(), P = s.rows(), K = s.K, N = s.N;
  Problem p;
  p.input("a", dtype, {P, K}, normal(), s.layout).input("b", dtype, s.transpose_b ? Shape{E, N, K} : Shape{E, K, N}, normal());
  add_starts(p, s);
  if (s.bias) p.input("bias", dtype, {E, N}, normal());
  p.output("c", dtype, {P, N}, s.layout);
  p.launches<GroupedMatmulArgs>(grouped_matmul, [=](GroupedMatmulArgs& a) { a.transpose_b = s.transpose_b; });
  p.reference = [=](Truth& t) {
    s.for_each_row([&](int64_t e, int64_t i) {
      for (int64_t n = 0; n < N; ++n) {
        double value = s.bias ? t["bias"][e * N + n] : 0, size = std::abs(value);
        for (int64_t k = 0; k < K; ++k) {
          const double term = t["a"][i * K + k] * t["b"][e * N * K + (s.transpose_b ? n * K + k : k * N + n)];
          value += term, size += std::abs(term);
        }
        t["c"].expect(i * N + n, value, size, double(K) + 3);
      }
    });
  };
  return p;
}

// The same as a comparison with matmul for each expert: the bits must be equal.
Problem as_matmul(DType dtype, const Size& s) {
  Problem p = forward(dtype, s);
  p.run = [=](Stream& stream, const Bound& b) {
    GroupedMatmulArgs args = b.args<GroupedMatmulArgs>();
    args.transpose_b = s.transpose_b;
    grouped_matmul(stream, args);
    Device& device = stream.device();
    const Tensor alone = Tensor::empty(device, {s.rows(), s.N}, dtype);
    const std::vector<double> starts = s.starts();
    for (int64_t e = 0; e < s.experts(); ++e) {
      const int64_t first = int64_t(starts[size_t(e)]), last = int64_t(starts[size_t(e) + 1]);
      if (first == last) continue;
      View w = part(args.b, 0, e, e + 1), bias = args.bias;
      w.shape = {w.shape[1], w.shape[2]}, w.strides = {w.strides[1], w.strides[2]};
      if (bias) bias = part(bias, 0, e, e + 1), bias.shape = {s.N}, bias.strides = {1};
      matmul(stream, {.a = part(args.a, 0, first, last),
                      .b = w,
                      .c = part(alone.mut_view(), 0, first, last),
                      .bias = bias,
                      .pre = {},
                      .transpose_b = s.transpose_b});
    }
    if (!stream.synchronous()) return;  // a graph may be captured
    const auto bytes = [](const Tensor& x) {
      std::vector<char> all(size_t(x.numel() * size_of(x.dtype())));
      x.read_bytes(x.dtype(), all.data(), int64_t(all.size()));
      return all;
    };
    check(bytes(b.tensor("c")) == bytes(alone), "check", "grouped_matmul has other bits than matmul");
  };
  return p;
}

Problem weights(DType dtype, const Size& s, bool accumulate) {
  const int64_t E = s.experts(), P = s.rows(), M = s.K, N = s.N;
  Problem p;
  p.input("a", dtype, {P, M}, normal(), s.layout).input("b", dtype, {P, N}, normal(), s.layout);
  add_starts(p, s);
  accumulate ? p.in_place("c", DType::f32, {E, M, N}, normal()) : p.output("c", DType::f32, {E, M, N});
  p.launches<GroupedMatmulWeightsArgs>(grouped_matmul_weights, [=](GroupedMatmulWeightsArgs& a) { a.accumulate = accumulate; });
  p.reference = [=](Truth& t) {
    std::vector<double> value(size_t(E * M * N)), size = value;
    for (int64_t i = 0; i < E * M * N && accumulate; ++i) value[size_t(i)] = t["c"][i], size[size_t(i)] = std::abs(t["c"][i]);
    s.for_each_row([&](int64_t e, int64_t i) {
      for (int64_t j = 0; j < M * N; ++j) {
        const double term = t["a"][i * M + j / N] * t["b"][i * N + j % N];
        value[size_t(e * M * N + j)] += term, size[size_t(e * M * N + j)] += std::abs(term);
      }
    });
    Array& c = t[accumulate ? result("c") : "c"];
    for (int64_t i = 0; i < E * M * N; ++i) c.expect(i, value[size_t(i)], size[size_t(i)], double(s.counts[size_t(i / M / N)]) + 2);
  };
  if (!accumulate) {  // with w [E, M, N], the loss <b, a w[e]>
    p.input("w", DType::f32, {E, M, N}, normal());
    p.loss = [=](const Truth& t) {
      double loss = 0;
      s.for_each_row([&](int64_t e, int64_t i) {
        for (int64_t j = 0; j < M * N; ++j) loss += t["a"][i * M + j / N] * t["b"][i * N + j % N] * t["w"][e * M * N + j];
      });
      return loss;
    };
    p.derivatives = {{"w", "c"}};
  }
  return p;
}

Problem sums(DType dtype, const Size& s) {
  const int64_t E = s.experts(), P = s.rows(), N = s.N;
  Problem p;
  p.input("x", dtype, {P, N}, normal(), s.layout);
  add_starts(p, s);
  p.output("y", DType::f32, {E, N});
  p.launches<GroupedSumsArgs>(grouped_sums);
  p.reference = [=](Truth& t) {
    std::vector<double> value(size_t(E * N)), size = value;
    s.for_each_row([&](int64_t e, int64_t i) {
      for (int64_t n = 0; n < N; ++n) value[size_t(e * N + n)] += t["x"][i * N + n], size[size_t(e * N + n)] += std::abs(t["x"][i * N + n]);
    });
    for (int64_t i = 0; i < E * N; ++i) t["y"].expect(i, value[size_t(i)], size[size_t(i)], double(s.counts[size_t(i / N)]));
  };
  return p;
}

// 8192 tokens with 8 of 128 experts each, 2048 -> 768, with the counts of an untrained router.
Size published() {
  Size s{{}, 2048, 768};
  for (int64_t e = 0; e < 128; ++e) s.counts.push_back(512 + (e * 37 % 128 - 64) * 4 + 2);
  return s;
}

// One dense matmul of equal FLOPs, for comparison.
Problem dense(DType dtype, const Size& s) {
  Problem p;
  p.input("a", dtype, {s.rows(), s.K}, normal()).input("b", dtype, {s.N, s.K}, normal()).output("c", dtype, {s.rows(), s.N});
  p.launches<MatmulArgs>(matmul, [](MatmulArgs& a) { a.transpose_b = true; });
  return p;
}

void add_cases(Registry& registry, DType dtype) {
  const std::string op = "grouped_matmul";
  const auto add = [&](const std::string& name, Size s, bool gradients = true) {
    for (bool transpose_b : {true, false}) {
      s.transpose_b = transpose_b;
      const std::string stored = transpose_b ? "" : "/as_stored";
      registry.add({op, "forward", dtype, name + stored, [=] { return forward(dtype, s); }});
      if (s.layout == Layout::contiguous) registry.add({op, "as_matmul", dtype, name + stored, [=] { return as_matmul(dtype, s); }});
    }
    if (!gradients) return;
    registry.add({op, "weights", dtype, name, [=] { return weights(dtype, s, false); }});
    registry.add({op, "accumulate", dtype, name, [=] { return weights(dtype, s, true); }});
    registry.add({op, "sums", dtype, name, [=] { return sums(dtype, s); }});
  };
  add("1x1/one", {{1}, 1, 1});
  add("decode", {{0, 1, 0, 0, 1, 1, 0}, 65, 70, true, true});
  add("uneven", {{3, 0, 17, 1, 40}, 33, 19, true, true});
  add("uneven/padded", {{3, 0, 17, 1, 40}, 33, 19, true, true, Layout::padded_rows});
  add("one_past_a_tile", {{129, 65, 0, 33}, 48, 130});
  add("aligned", {{64, 128, 20, 0}, 64, 128, true, true});
  add("one_expert", {{0, 0, 150, 0}, 80, 64});
  add("no_rows", {{0, 0, 0}, 16, 24}, false);
  add("no_depth", {{2, 3}, 0, 5, true, true}, false);
  registry.bench({op, "forward", dtype, "4x300x128x64", [=] { return forward(dtype, {{75, 80, 70, 75}, 128, 64}); }});
}

void add_rejections(Registry& registry) {
  const std::string op = "grouped_matmul";
  const auto reject = [&](const char* name, std::function<void(Device&, Tensor & a, Tensor & b, Tensor & starts, Tensor & bias)> spoil) {
    registry.rejects(op, name, [=](Device& d) {
      Tensor a = zeros(d, {4, 6}), b = zeros(d, {2, 3, 6}), starts = Tensor::from_host(d, {3}, std::vector<int32_t>{0, 1, 4}), bias;
      spoil(d, a, b, starts, bias);
      grouped_matmul(a, b, starts, true, bias);
    });
  };
  reject("undefined_a", [](Device&, Tensor& a, Tensor&, Tensor&, Tensor&) { a = Tensor(); });
  reject("undefined_b", [](Device&, Tensor&, Tensor& b, Tensor&, Tensor&) { b = Tensor(); });
  reject("undefined_starts", [](Device&, Tensor&, Tensor&, Tensor& starts, Tensor&) { starts = Tensor(); });
  reject("inner_extents", [](Device& d, Tensor& a, Tensor&, Tensor&, Tensor&) { a = zeros(d, {4, 5}); });
  reject("dtypes_differ", [](Device& d, Tensor& a, Tensor&, Tensor&, Tensor&) { a = zeros(d, {4, 6}, DType::bf16); });
  reject("starts_of_other_experts", [](Device& d, Tensor&, Tensor&, Tensor& starts, Tensor&) { starts = zeros(d, {4}, DType::i32); });
  reject("bias_shape", [](Device& d, Tensor&, Tensor&, Tensor&, Tensor& bias) { bias = zeros(d, {2, 4}); });
  reject("starts_end_early",
         [](Device& d, Tensor&, Tensor&, Tensor& starts, Tensor&) { starts = Tensor::from_host(d, {3}, std::vector<int32_t>{0, 1, 3}); });
  reject("starts_descend",
         [](Device& d, Tensor&, Tensor&, Tensor& starts, Tensor&) { starts = Tensor::from_host(d, {3}, std::vector<int32_t>{0, 5, 4}); });
  reject("starts_begin_late",
         [](Device& d, Tensor&, Tensor&, Tensor& starts, Tensor&) { starts = Tensor::from_host(d, {3}, std::vector<int32_t>{1, 2, 4}); });
  registry.rejects(op, "weights_shape", [](Device& d) {
    const Tensor a = zeros(d, {4, 6}), b = zeros(d, {5, 3}), starts = zeros(d, {3}, DType::i32), c = zeros(d, {2, 6, 3});
    grouped_matmul_weights(d.stream(), {a.view(), b.view(), starts.view(), c.mut_view(), false});
  });
}

}  // namespace

void add_specs_grouped_matmul(Registry& registry) {
  for (DType dtype : {DType::f32, DType::bf16}) add_cases(registry, dtype);
  const auto bench = [&](const char* variant, const char* name, auto make) {
    registry.bench_gpu({"grouped_matmul", variant, DType::bf16, name, make});
  };
  const Size up = published();
  Size down = up;
  down.K = 768, down.N = 2048;
  bench("dense", "65536x2048x768", [=] { return dense(DType::bf16, up); });
  bench("dense", "65536x768x2048", [=] { return dense(DType::bf16, down); });
  bench("forward", "128x8x8192x2048x768", [=] { return forward(DType::bf16, up); });
  bench("forward", "128x8x8192x768x2048", [=] { return forward(DType::bf16, down); });
  bench("forward", "128x8x8192x2048x768/as_stored", [=] {
    Size s = up;
    s.transpose_b = false;
    return forward(DType::bf16, s);
  });
  bench("weights", "128x8x8192x768x2048", [=] { return weights(DType::bf16, down, false); });
  bench("forward", "one_token/128x8x2048x768", [=] {
    Size s{std::vector<int64_t>(128, 0), 2048, 768};
    for (int64_t e = 5; e < 128; e += 16) s.counts[size_t(e)] = 1;
    return forward(DType::bf16, s);
  });
  add_rejections(registry);
}

}  // namespace weft::spec
