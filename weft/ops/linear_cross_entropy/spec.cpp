#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/cross_entropy/row_truth.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "weft/spec/registry.h"
#include "weft/tensor/node.h"

namespace weft::spec {
namespace {

using namespace entropy;

constexpr const char* kOp = LinearCrossEntropyArgs::kOp;

struct Setup {
  DType dtype;
  int64_t rows, C, V;
  bool dx = true, dweight = true;
  int64_t chunk_rows = 0;
  int64_t more_rows = 0;  // of dweight
  int64_t pad_id = -1;
  DType id = DType::i32;
  Layout layout = Layout::contiguous;
  Fill fill = normal();
  Fill targets = {};  // default: ids below V
  double count = 7;
  bool smooth = true;  // finite differences say something
  float soft_cap = 0;
};

bool padded(const Setup& s, const Truth& t, int64_t r) { return s.pad_id != -1 && int64_t(t["targets"][r]) == s.pad_id; }

// The logits of one row and their errors, those of a matmul's sum of C products (weft/ops/matmul/spec.cpp). `slope`: derivative of the cap.
struct Logits {
  std::vector<double> value, error, slope, slope_error;

  Logits(const Setup& s, const Truth& t, int64_t r)
      : value(size_t(s.V), 0), error(size_t(s.V), 0), slope(size_t(s.V), 1), slope_error(size_t(s.V), 0) {
    const Array &x = t["x"], &w = t["weight"];
    for (int64_t j = 0; j < s.V; ++j) {
      double size = 0;
      for (int64_t c = 0; c < s.C; ++c) {
        const double term = x[r * s.C + c] * w[j * s.C + c];
        value[size_t(j)] += term;
        size += std::abs(term);
      }
      error[size_t(j)] = growth(double(s.C) + 3) * u * size;
      if (s.soft_cap > 0) cap(size_t(j), double(s.soft_cap));
    }
  }

  // The derivative is at most 1, so the error does not grow; a division, tanh (at most 12 u) and a product add their roundings.
  void cap(size_t j, double cap) {
    const double y = cap * std::tanh(value[j] / cap);
    error[j] += 14 * u * std::abs(y);
    value[j] = y;
    slope[j] = 1 - y * y / (cap * cap);
    slope_error[j] = 2 * std::abs(y) / (cap * cap) * error[j] + 5 * u;
  }
};

double loss_of(const Setup& s, const Truth& t) {
  double loss = 0;
  for (int64_t r = 0; r < s.rows; ++r)
    if (!padded(s, t, r)) loss += row_truth(Logits(s, t, r).value, int64_t(t["targets"][r])).loss;
  return loss / t["count"][0];
}

constexpr double kSmallestNormal = 0x1p-126;

// Sums of a gradient's terms, of their magnitudes, of the errors that came in with dlogits, and of the terms whose dlogit is
// below the normal range: a device that flushes such numbers has none of them.
struct Sums {
  std::vector<double> value, size, error, flushed;

  explicit Sums(int64_t n) : value(size_t(n), 0), size(value), error(value), flushed(value) {}
  void add(int64_t i, double d, double d_error, double factor) {
    value[size_t(i)] += d * factor;
    size[size_t(i)] += std::abs(d * factor);
    error[size_t(i)] += d_error * std::abs(factor);
    if (std::abs(d) < kSmallestNormal) flushed[size_t(i)] += std::abs(d * factor);
  }
  void expect(Array& out, double terms) const {
    for (int64_t i = 0; i < out.size(); ++i) {
      const bool beyond = i >= int64_t(value.size());  // rows of dweight that no word has
      out.expect_within(i, beyond ? 0 : value[size_t(i)], beyond ? 0 : 1.01 * error[size_t(i)] + growth(terms + 2) * u * size[size_t(i)]);
      if (!beyond) out.allow_flush(i, flushed[size_t(i)]);
    }
  }
};

// AMX and the bf16 dot products of AVX512_BF16 read an operand below the smallest normal number as zero.
double read_as_zero(const Setup& s, double d) { return s.dtype == DType::bf16 && std::abs(d) < kSmallestNormal ? std::abs(d) : 0; }

// With e_j the error of logit j and m = sum_j p_j e_j: lse moves by m, log p_j by e_j + m, to first order. The rest is
// cross_entropy's own error (row_truth). A gradient of a bf16 x is rounded to bf16 before it meets the weight and x.
void reference(const Setup& s, Truth& t) {
  const double count = t["count"][0], narrow = s.dtype == DType::bf16 ? unit_roundoff(DType::bf16) : 0;
  double loss = 0, magnitude = 0, error = 0;
  Sums dx(s.rows * s.C), dw(s.V * s.C);
  for (int64_t r = 0; r < s.rows; ++r) {
    if (padded(s, t, r)) {
      if (t.has("losses")) t["losses"].expect(r, 0, 0, 0);
      continue;
    }
    const Logits logits(s, t, r);
    const int64_t target = int64_t(t["targets"][r]);
    const RowTruth row = row_truth(logits.value, target);
    double moved = 0;
    for (size_t j = 0; j < row.p.size(); ++j) moved += row.p[j] * logits.error[j];
    loss += row.loss;
    magnitude += std::abs(row.loss);
    const double row_error = row.loss_error + 1.01 * (moved + logits.error[size_t(target)]);
    error += row_error;
    if (t.has("losses")) t["losses"].expect_within(r, row.loss, row_error);
    if (!s.dx && !s.dweight) continue;
    for (int64_t j = 0; j < s.V; ++j) {
      const double p = row.p[size_t(j)], at_target = j == target, plain = (p - at_target) / count;
      const double slope = logits.slope[size_t(j)], d = plain * slope;
      double d_error = p * (row.share[size_t(j)] + 1.01 * (logits.error[size_t(j)] + moved)) / count +
                       at_target * (u / count + u * std::abs(plain)) + 3 * 0x1p-150 + narrow * std::abs(plain);
      if (s.soft_cap > 0) d_error = d_error * slope + std::abs(plain) * logits.slope_error[size_t(j)] + (u + narrow) * std::abs(d);
      d_error += read_as_zero(s, d);
      for (int64_t c = 0; c < s.C; ++c) {
        dx.add(r * s.C + c, d, d_error, t["weight"][j * s.C + c]);
        dw.add(j * s.C + c, d, d_error, t["x"][r * s.C + c]);
      }
    }
  }
  // The rows' losses are added and divided by count, chunk by chunk.
  const double chunks = s.chunk_rows ? std::ceil(double(s.rows) / double(s.chunk_rows)) : 1;
  t["loss"].expect_within(0, loss / count, (error + u * growth(chain(s.rows) + 1 + chunks) * magnitude) / count);
  if (s.dx) dx.expect(t["dx"], double(s.V));
  if (s.dweight) dw.expect(t["dweight"], double(s.rows));
}

Problem problem(const Setup& s) {
  Problem p;
  p.input("x", s.dtype, {s.rows, s.C}, s.fill, s.layout).input("weight", s.dtype, {s.V, s.C}, normal(), s.layout);
  p.input("targets", s.id, {s.rows}, s.targets ? s.targets : ids(s.V)).input("count", DType::f32, {}, constant(s.count));
  p.output("loss", DType::f32, {}).output("losses", DType::f32, {s.rows});
  if (s.dx) p.output("dx", s.dtype, {s.rows, s.C}, s.layout);
  if (s.dweight) p.output("dweight", DType::f32, {s.V + s.more_rows, s.C}, s.layout);
  const auto args = [=](const Bound& b) {
    return LinearCrossEntropyArgs{.x = b.view("x"),
                                  .weight = b.view("weight"),
                                  .targets = b.view("targets"),
                                  .count = b.view("count"),
                                  .loss = b.mut("loss"),
                                  .losses = b.mut("losses"),
                                  .dx = s.dx ? b.mut("dx") : MutView{},
                                  .dweight = s.dweight ? b.mut("dweight") : MutView{},
                                  .pad_id = s.pad_id,
                                  .chunk_rows = s.chunk_rows,
                                  .soft_cap = s.soft_cap};
  };
  p.run = [=](Stream& stream, const Bound& b) { linear_cross_entropy(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { reference(s, t); };
  if (!s.smooth || s.more_rows || !s.dx || !s.dweight) return p;
  p.loss = [=](const Truth& t) { return loss_of(s, t); };
  p.derivatives = {{"x", "dx"}, {"weight", "dweight"}};
  return p;
}

// The recorded rule: the gradients of a loss whose own gradient is 3, of x and of a weight that is a leaf or is not.
Problem rule(const Setup& s) {
  Problem p;
  p.input("x", s.dtype, {s.rows, s.C}, s.fill).input("weight", s.dtype, {s.V, s.C}, normal());
  p.input("targets", s.id, {s.rows}, ids(s.V)).input("count", DType::f32, {}, constant(s.count));
  p.output("loss", DType::f32, {}).output("dx", s.dtype, {s.rows, s.C}).output("dweight", DType::f32, {s.V, s.C});
  p.run = [=](Stream& stream, const Bound& b) {
    const auto leaf = [&](const char* name) { return b.tensor(name).detach().set_requires_grad(); };
    const Tensor x = leaf("x"), weight = leaf("weight");
    const Tensor loss = linear_cross_entropy(x, weight, b.tensor("targets"), {.pad_id = s.pad_id, .count = b.tensor("count")});
    const Tensor three = full(stream.device(), {}, 3);
    const std::vector<Tensor> grads = loss.node()->backward({{three}, {true, true}});
    copy(loss.detach(), b.tensor("loss"));
    copy(grads[0], b.tensor("dx"));
    copy(grads[1], b.tensor("dweight"));
  };
  p.reference = [=](Truth& t) {
    reference(s, t);
    for (const char* name : {"dx", "dweight"})
      for (int64_t i = 0; i < t[name].size(); ++i) {
        // dx was rounded to its dtype, then multiplied and rounded again; dweight takes one f32 rounding more.
        const double value = 3 * t[name][i], error = 3.03 * t[name].bound[size_t(i)] + u * std::abs(value);
        t[name].expect_within(i, value, error);
      }
  };
  return p;
}

void add_cases(Registry& registry, DType dtype) {
  const auto add = [&](const char* variant, const std::string& suffix, const Setup& s) {
    registry.add({kOp, variant, dtype, dims({s.rows, s.C, s.V}) + suffix, [=] { return problem(s); }});
  };
  struct Size {
    int64_t rows, C, V;
  };
  for (auto [rows, C, V] : {Size{1, 1, 1}, {1, 7, 2}, {4, 8, 7}, {5, 16, 64}, {9, 33, 65}, {17, 20, 130}, {3, 5, 1030}, {0, 8, 5}}) {
    const Setup s{.dtype = dtype, .rows = rows, .C = C, .V = V};
    Setup loss = s, dx = s, dweight = s, more = s, strided = s;
    loss.dx = loss.dweight = dx.dweight = dweight.dx = false;
    more.more_rows = 64 - V % 64;
    strided.layout = Layout::padded_rows;
    add("loss", "", loss);
    add("gradients", "", s);
    add("gradients", "/dx_alone", dx);
    add("gradients", "/dweight_alone", dweight);
    add("gradients", "/padded_dweight", more);
    add("gradients", "/padded", strided);
  }
  for (int64_t chunk : {1, 4, 5, 16, 17, 40})
    add("chunks", join("/by_", chunk), {.dtype = dtype, .rows = 17, .C = 20, .V = 37, .chunk_rows = chunk, .pad_id = 3});
  for (float cap : {1.5f, 30.0f}) {
    add("soft_cap", join("/", cap), {.dtype = dtype, .rows = 9, .C = 12, .V = 50, .soft_cap = cap});
    add("soft_cap", join("/", cap, "_by_4"), {.dtype = dtype, .rows = 17, .C = 20, .V = 37, .chunk_rows = 4, .pad_id = 3, .soft_cap = cap});
  }
  add("soft_cap", "/loss", {.dtype = dtype, .rows = 9, .C = 33, .V = 65, .dx = false, .dweight = false, .soft_cap = 5});
  add("gradients", "/u32_targets", {.dtype = dtype, .rows = 9, .C = 12, .V = 50, .id = DType::u32});
  add("gradients", "/all_pads", {.dtype = dtype, .rows = 6, .C = 12, .V = 20, .pad_id = 3, .targets = constant(3), .smooth = false});
  add("gradients", "/one_pad", {.dtype = dtype, .rows = 6, .C = 12, .V = 20, .pad_id = 19, .targets = listed({1, 19, 0, 18, 2, 19})});
  add("gradients", "/large_logits", {.dtype = dtype, .rows = 6, .C = 12, .V = 20, .fill = normal(20), .smooth = false});
  add("gradients", "/nan",
      {.dtype = dtype, .rows = 6, .C = 12, .V = 20, .dweight = false, .fill = sprinkle(normal(), 72, 27, NAN), .smooth = false});
  for (int64_t pad : {int64_t(-1), int64_t(3)})
    registry.add({kOp, "rule", dtype, join("17x20x37/pad_", pad),
                  [=] { return rule({.dtype = dtype, .rows = 17, .C = 20, .V = 37, .pad_id = pad}); }});
  // 1024 rows of GPT-2's head on the CPU are four chunks; on a GPU 8192 rows are four.
  registry.bench({kOp, "loss", dtype, "1024x384x50304",
                  [=] { return problem({.dtype = dtype, .rows = 1024, .C = 384, .V = 50304, .dx = false, .dweight = false}); }});
  registry.bench(
      {kOp, "gradients", dtype, "1024x384x50304", [=] { return problem({.dtype = dtype, .rows = 1024, .C = 384, .V = 50304}); }});
  for (int64_t rows : {8192, 65536})
    registry.bench_gpu({kOp, "gradients", dtype, dims({rows, 768, 50257}),
                        [=] { return problem({.dtype = dtype, .rows = rows, .C = 768, .V = 50257, .more_rows = 47}); }});
}

// A launch on fresh operands, but for what `spoil` does to them.
struct Attempt {
  Tensor x, weight, targets, count, loss, dx, dweight;
  int64_t chunk_rows = 0;
};
void rejects(Registry& registry, const char* name, std::function<void(Attempt&, Device&)> spoil) {
  registry.rejects(kOp, name, [=](Device& d) {
    Attempt a{zeros(d, {4, 8}), zeros(d, {10, 8}), zeros(d, {4}, DType::i32), full(d, {}, 4),
              zeros(d, {}),     zeros(d, {4, 8}),  zeros(d, {10, 8})};
    spoil(a, d);
    linear_cross_entropy(d.stream(), {.x = a.x.view(),
                                      .weight = a.weight.view(),
                                      .targets = a.targets.view(),
                                      .count = a.count.view(),
                                      .loss = a.loss.mut_view(),
                                      .dx = a.dx.mut_view(),
                                      .dweight = a.dweight.mut_view(),
                                      .chunk_rows = a.chunk_rows});
    d.synchronize();
  });
}

void add_rejections(Registry& registry) {
  rejects(registry, "x_rank", [](Attempt& a, Device& d) { a.x = zeros(d, {4, 1, 8}); });
  rejects(registry, "x_missing", [](Attempt& a, Device&) { a.x = Tensor(); });
  rejects(registry, "weight_columns", [](Attempt& a, Device& d) { a.weight = zeros(d, {10, 7}); });
  rejects(registry, "dtypes_differ", [](Attempt& a, Device& d) { a.weight = zeros(d, {10, 8}, DType::bf16); });
  rejects(registry, "integers", [](Attempt& a, Device& d) { a.x = zeros(d, {4, 8}, DType::i32); });
  rejects(registry, "target_count", [](Attempt& a, Device& d) { a.targets = zeros(d, {3}, DType::i32); });
  rejects(registry, "float_targets", [](Attempt& a, Device& d) { a.targets = zeros(d, {4}); });
  rejects(registry, "target_too_high", [](Attempt& a, Device& d) { a.targets = full(d, {4}, 10, DType::i32); });
  rejects(registry, "target_negative", [](Attempt& a, Device& d) { a.targets = full(d, {4}, -1, DType::i32); });
  rejects(registry, "empty_vocabulary", [](Attempt& a, Device& d) { a.weight = a.dweight = zeros(d, {0, 8}); });
  rejects(registry, "count_missing", [](Attempt& a, Device&) { a.count = Tensor(); });
  rejects(registry, "count_shape", [](Attempt& a, Device& d) { a.count = zeros(d, {2}); });
  rejects(registry, "loss_dtype", [](Attempt& a, Device& d) { a.loss = zeros(d, {}, DType::bf16); });
  registry.rejects(kOp, "losses_shape", [](Device& d) {
    linear_cross_entropy(zeros(d, {4, 8}), zeros(d, {10, 8}), zeros(d, {4}, DType::i32), {.losses = zeros(d, {5})});
  });
  rejects(registry, "dx_shape", [](Attempt& a, Device& d) { a.dx = zeros(d, {5, 8}); });
  rejects(registry, "dx_dtype", [](Attempt& a, Device& d) { a.dx = zeros(d, {4, 8}, DType::bf16); });
  rejects(registry, "dweight_too_few_rows", [](Attempt& a, Device& d) { a.dweight = zeros(d, {9, 8}); });
  rejects(registry, "dweight_bf16", [](Attempt& a, Device& d) { a.dweight = zeros(d, {10, 8}, DType::bf16); });
  rejects(registry, "strided_columns", [](Attempt& a, Device& d) { a.x = zeros(d, {8, 4}).permute({1, 0}); });
  rejects(registry, "negative_chunk", [](Attempt& a, Device&) { a.chunk_rows = -1; });
  registry.rejects(kOp, "negative_soft_cap",
                   [](Device& d) { linear_cross_entropy(zeros(d, {4, 8}), zeros(d, {10, 8}), zeros(d, {4}, DType::i32), {}, -1); });
  registry.rejects(kOp, "undefined_weight", [](Device& d) { linear_cross_entropy(zeros(d, {4, 8}), Tensor(), zeros(d, {4}, DType::i32)); });
}

}  // namespace

void add_specs_linear_cross_entropy(Registry& registry) {
  for (DType dtype : {DType::f32, DType::bf16}) add_cases(registry, dtype);
  add_rejections(registry);
}

}  // namespace weft::spec
