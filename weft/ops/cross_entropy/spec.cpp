#include <algorithm>
#include <bit>
#include <cmath>

#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/cross_entropy/row_truth.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

using namespace entropy;

enum class Mode { loss_only, gradient, in_place };

struct Setup {
  DType dtype;
  int64_t rows, vocab;
  int64_t pad_id = -1;
  Mode mode = Mode::gradient;
  Layout layout = Layout::contiguous;
  Fill fill = normal(2);
  Fill targets = {};  // default: ids below vocab
  DType id = DType::i32;
  double count = 0;  // given, unless 0
  bool accumulate = false;
  DType gradient = DType::f32;  // of dlogits, where it is not logits'
  bool per_row = false;         // losses, maxima, log_sums and digests are wanted

  DType dlogits() const { return gradient == DType::bf16 ? DType::bf16 : dtype; }
};

std::span<const double> row_of(const Array& x, int64_t r, int64_t V) { return std::span(x.v).subspan(size_t(r * V), size_t(V)); }

bool padded(const Setup& s, const Truth& t, int64_t r) { return s.pad_id != -1 && int64_t(t["targets"][r]) == s.pad_id; }

double divisor(const Setup& s, const Truth& t) {
  double targets = 0;
  for (int64_t r = 0; r < s.rows; ++r) targets += padded(s, t, r) ? 0 : 1;
  return targets == 0 ? 1 : s.count ? s.count : targets;  // without targets the loss is 0 whatever it is divided by
}

// The definition of digest_term.h once more, on 64-bit integers.
double digest_of(std::span<const double> row, DType dtype) {
  constexpr uint64_t k32 = 0xffffffff;
  uint64_t sum = 0;
  for (uint64_t j = 0; j < row.size(); ++j) {
    const uint64_t bits = std::bit_cast<uint32_t>(float(row[j])) >> (dtype == DType::bf16 ? 16 : 0);
    uint64_t h = bits ^ (j * 0x9e3779b9 & k32);
    h = (h ^ (h >> 16)) * 0x7feb352d & k32;
    h = (h ^ (h >> 15)) * 0x846ca68b & k32;
    sum += h ^ (h >> 16);
  }
  return double(sum & k32);
}

void expect_row(const Setup& s, Truth& t, int64_t r, const RowTruth& row, std::span<const double> x, bool pad) {
  if (!s.per_row) return;
  t["losses"].expect_within(r, row.loss, row.loss_error);
  t["maxima"].expect(r, row.max, 0, 0);
  t["log_sums"].expect_within(r, row.log_sum, row.log_sum_error);
  t["digests"].expect(r, pad ? 0 : digest_of(x, s.dtype), 0, 0);
}

void reference(const Setup& s, Truth& t) {
  const Array x = t["logits"];
  const double count = divisor(s, t);
  double loss = 0, magnitude = 0, error = 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    const bool pad = padded(s, t, r);
    const int64_t target = int64_t(t["targets"][r]);
    const RowTruth row = pad ? RowTruth{} : row_truth(row_of(x, r, s.vocab), target);
    loss += row.loss;
    magnitude += std::abs(row.loss);
    error += row.loss_error;
    expect_row(s, t, r, row, row_of(x, r, s.vocab), pad);
    if (s.mode == Mode::loss_only) continue;
    Array& out = t[s.mode == Mode::in_place ? result("logits") : "dlogits"];
    for (int64_t j = 0; j < s.vocab; ++j) {
      const bool at_target = !pad && j == target;
      const double p = pad ? 0 : row.p[size_t(j)], share = pad ? 0 : row.share[size_t(j)], dx = (p - at_target) / count;
      // At the target 1 / count is subtracted: its own rounding and the difference's. The last term: exp and product
      // below the normal range, where each errs by half the smallest subnormal.
      out.expect_within(r * s.vocab + j, dx, p * share / count + (at_target ? u / count + u * std::abs(dx) : 0) + (pad ? 0 : 3 * 0x1p-150));
    }
  }
  // The rows' losses are added and divided by count.
  error = (error + u * growth(chain(s.rows) + 1) * magnitude) / count;
  if (!s.accumulate) return t["loss"].expect_within(0, loss / count, error);
  const double total = t["loss"][0] + loss / count;
  t[result("loss")].expect_within(0, total, error + u * std::abs(total));
}

Problem problem(const Setup& s) {
  const int64_t N = s.rows, V = s.vocab;
  Problem p;
  if (s.mode == Mode::in_place)
    p.in_place("logits", s.dtype, {N, V}, s.fill, s.layout);
  else
    p.input("logits", s.dtype, {N, V}, s.fill, s.layout);
  if (s.mode == Mode::gradient) p.output("dlogits", s.dlogits(), {N, V}, s.layout);
  p.input("targets", s.id, {N}, s.targets ? s.targets : ids(V));
  if (s.accumulate)
    p.in_place("loss", DType::f32, {}, constant(2.5));
  else
    p.output("loss", DType::f32, {});
  if (s.per_row) p.output("losses", DType::f32, {N}).output("maxima", DType::f32, {N}).output("log_sums", DType::f32, {N});
  if (s.per_row) p.output("digests", DType::u32, {N});
  if (s.count) p.input("count", DType::f32, {}, constant(s.count));
  p.launches<CrossEntropyArgs>(cross_entropy, [=](CrossEntropyArgs& a) {
    if (s.mode == Mode::in_place) a.dlogits = MutView{a.logits};
    a.pad_id = s.pad_id, a.accumulate = s.accumulate;
  });
  p.reference = [=](Truth& t) { reference(s, t); };
  if (s.mode == Mode::loss_only) return p;
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t r = 0; r < N; ++r)
      if (!padded(s, t, r)) loss += row_truth(row_of(t["logits"], r, V), int64_t(t["targets"][r])).loss;
    return loss / divisor(s, t);
  };
  p.derivatives = {{"logits", s.mode == Mode::in_place ? "logits" : "dlogits"}};
  return p;
}

// Targets that 12 and 16 bits do not hold. The finite differences of so wide a row are left to the random targets of add_cases.
void add_far_targets(Registry& registry, DType dtype) {
  const auto add = [&](const char* variant, Mode mode, DType gradient) {
    const Setup s{.dtype = dtype, .rows = 3, .vocab = 70001, .mode = mode, .targets = listed({70000, 65536, 4096}), .gradient = gradient};
    registry.add({"cross_entropy", variant, dtype, "3x70001/far_targets", [=] {
                    Problem p = problem(s);
                    p.loss = nullptr;
                    return p;
                  }});
  };
  add("loss", Mode::loss_only, DType::f32);
  add("gradient", Mode::gradient, DType::f32);
  add("in_place", Mode::in_place, DType::f32);
  if (dtype == DType::f32) add("bf16_gradient", Mode::gradient, DType::bf16);
}

// losses, maxima, log_sums and digests beside the loss.
void add_row_outputs(Registry& registry, DType dtype) {
  for (auto [rows, vocab] : {std::pair<int64_t, int64_t>{1, 1}, {9, 17}, {70, 257}, {3, 1025}, {2, 5003}, {2, 70001}, {0, 8}})
    for (Mode mode : {Mode::loss_only, Mode::gradient, Mode::in_place}) {
      const char* suffix = mode == Mode::loss_only ? "" : mode == Mode::gradient ? "/gradient" : "/in_place";
      const int64_t pad_id = vocab > 1 ? 0 : -1;  // a row of padding alone reads no logits
      const Setup s{.dtype = dtype, .rows = rows, .vocab = vocab, .pad_id = pad_id, .mode = mode, .per_row = true};
      registry.add({"cross_entropy", "rows", dtype, dims({rows, vocab}) + suffix, [=] {
                      Problem p = problem(s);
                      p.loss = nullptr;  // the cases above have the finite differences
                      return p;
                    }});
    }
}

void add_cases(Registry& registry, DType dtype) {
  const std::string op = "cross_entropy";
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1},    {1, 2},    {4, 7},    {9, 15},    {9, 16},    {9, 17},    {5, 65}, {70, 257},
                                               {3, 1023}, {3, 1025}, {2, 5003}, {1, 20008}, {1, 33008}, {2, 70008}, {0, 8}};
  for (auto [rows, vocab] : sizes)
    for (Layout layout : {Layout::contiguous, Layout::padded_rows}) {
      const std::string name = dims({rows, vocab}) + (layout == Layout::padded_rows ? "/padded" : "");
      registry.add({op, "loss", dtype, name, [=] { return problem({dtype, rows, vocab, -1, Mode::loss_only, layout}); }});
      registry.add({op, "gradient", dtype, name, [=] { return problem({dtype, rows, vocab, -1, Mode::gradient, layout}); }});
      if (dtype == DType::f32)
        registry.add({op, "bf16_gradient", dtype, name, [=] {
                        return problem(
                            {.dtype = dtype, .rows = rows, .vocab = vocab, .pad_id = 0, .layout = layout, .gradient = DType::bf16});
                      }});
      registry.add({op, "in_place", dtype, name, [=] { return problem({dtype, rows, vocab, 0, Mode::in_place, layout}); }});
    }
  add_row_outputs(registry, dtype);
  // Everything below is one setup with something particular; infinities and NaN have no finite differences.
  const auto add = [&](const char* name, const Setup& s, bool differences = true) {
    registry.add({op, "gradient", dtype, name, [=] {
                    Problem p = problem(s);
                    if (!differences) p.loss = nullptr;
                    return p;
                  }});
  };
  const auto grid = Layout::contiguous;
  add("pad_in_range", {dtype, 33, 20, 3});
  add("pad_beyond_vocab", {dtype, 33, 20, 40, Mode::gradient, grid, normal(), sprinkle(ids(20), 3, 1, 40)});
  add("pad_negative", {dtype, 33, 20, -100, Mode::gradient, grid, normal(), sprinkle(ids(20), 3, 1, -100)});
  add("all_pads", {dtype, 33, 20, 3, Mode::gradient, grid, normal(), constant(3)});
  add("all_pads_given_count", {dtype, 3, 20, 3, Mode::gradient, grid, normal(), constant(3), DType::i32, 7});
  add("u32_targets", {dtype, 9, 50, 3, Mode::gradient, grid, normal(), {}, DType::u32});
  add("given_count", {dtype, 9, 50, 3, Mode::gradient, grid, normal(), {}, DType::i32, 37});
  add("accumulate", {dtype, 9, 50, 3, Mode::gradient, grid, normal(), {}, DType::i32, 37, true});
  const Setup base{dtype, 6, 40, -1, Mode::gradient, grid, normal(), listed({0, 7, 39, 1, 8, 20})};
  const auto with = [&](Fill fill) {
    Setup s = base;
    s.fill = std::move(fill);
    return s;
  };
  add("large_logits", with(normal(300)), false);
  add("masked_logits", with(sprinkle(normal(), 5, 3, -INFINITY)), false);  // columns 3, 8, ...: the fifth target is masked
  add("masked_but_targets", with(sprinkle(normal(), 40, 5, -INFINITY)), false);
  add("all_masked", with(constant(-INFINITY)), false);
  add("nan", with(sprinkle(normal(), 85, 3, NAN)), false);
  add("infinity", with(sprinkle(normal(), 85, 3, INFINITY)), false);
  const Fill late = [](PhiloxStream& random, int64_t i) { return i % 2100 < 1030 ? -INFINITY : random.normal(); };
  const Fill rising = [](PhiloxStream& random, int64_t i) { return 0.004 * double(i % 5003) + random.normal(); };
  add("first_tile_masked", {dtype, 3, 2100, -1, Mode::gradient, grid, late, listed({1500, 1030, 2099})}, false);
  add("rising_maximum", {dtype, 3, 5003, -1, Mode::gradient, grid, rising});
  add_far_targets(registry, dtype);
  const auto bench = [&](const char* variant, Mode mode) {
    registry.bench({op, variant, dtype, "1024x50304", [=] { return problem({dtype, 1024, 50304, -1, mode}); }});
    registry.bench({op, variant, dtype, "32x32000", [=] { return problem({dtype, 32, 32000, -1, mode}); }});
  };
  for (int64_t vocab : {50304, 128256})
    registry.bench_gpu({op, "gradient", dtype, dims({8192, vocab}), [=] { return problem({dtype, 8192, vocab, -1, Mode::gradient}); }});
  bench("gradient", Mode::gradient);
  bench("in_place", Mode::in_place);
}

}  // namespace

void add_specs_cross_entropy(Registry& registry) {
  const std::string op = "cross_entropy";
  for (DType dtype : {DType::f32, DType::bf16}) add_cases(registry, dtype);
  for (Mode mode : {Mode::gradient, Mode::in_place})
    registry.golden(
        {op, mode == Mode::gradient ? "golden_gradient" : "golden_in_place", "cross_entropy.safetensors", [=](const GoldenCase& g) {
           Problem p = problem({DType::f32, g.integer("rows"), g.integer("vocab"), g.integer("pad_id"), mode});
           p.given("logits", g.values("logits")).given("targets", g.values("targets")).golden("loss", g.values("loss"));
           return p.golden(mode == Mode::gradient ? "dlogits" : "logits", g.values("dlogits"));
         }});

  const auto targets = [](Device& d, std::vector<int32_t> ids) { return Tensor::from_host(d, Shape{int64_t(ids.size())}, ids); };
  registry.rejects(op, "target_too_high", [=](Device& d) { cross_entropy(Tensor::empty(d, {2, 8}), targets(d, {3, 8})); });
  registry.rejects(op, "target_negative", [=](Device& d) { cross_entropy(Tensor::empty(d, {2, 8}), targets(d, {-1, 2})); });
  registry.rejects(op, "target_is_not_pad",
                   [=](Device& d) { cross_entropy(Tensor::empty(d, {2, 8}), targets(d, {9, 2}), {.pad_id = 10}); });
  registry.rejects(op, "empty_vocabulary", [=](Device& d) { cross_entropy(Tensor::empty(d, {2, 0}), targets(d, {0, 0})); });
  registry.rejects(op, "float_targets", [=](Device& d) { cross_entropy(Tensor::empty(d, {2, 8}), Tensor::empty(d, {2})); });
  registry.rejects(op, "target_count", [=](Device& d) { cross_entropy(Tensor::empty(d, {2, 8}), targets(d, {1, 2, 3})); });
  registry.rejects(op, "integer_logits", [=](Device& d) { cross_entropy(Tensor::empty(d, {2, 8}, DType::i32), targets(d, {1, 2})); });
  registry.rejects(op, "undefined_logits", [=](Device& d) { cross_entropy(Tensor(), targets(d, {1, 2})); });
  registry.rejects(op, "undefined_targets", [=](Device& d) { cross_entropy(Tensor::empty(d, {2, 8}), Tensor()); });
  registry.rejects(op, "transposed_logits",
                   [=](Device& d) { cross_entropy(Tensor::empty(d, {8, 2}).permute({1, 0}), targets(d, {1, 2})); });
  registry.rejects(op, "count_shape", [=](Device& d) {
    cross_entropy(Tensor::empty(d, {2, 8}), targets(d, {1, 2}), {.pad_id = -1, .count = Tensor::empty(d, {2})});
  });
  registry.rejects(op, "in_place_wants_gradient", [=](Device& d) {
    const std::vector<float> values(16, 1.0f);
    cross_entropy_in_place(Tensor::from_host(d, {2, 8}, values).set_requires_grad(), targets(d, {1, 2}));
  });
  registry.rejects(op, "losses_shape",
                   [=](Device& d) { cross_entropy(Tensor::empty(d, {2, 8}), targets(d, {1, 2}), {.losses = Tensor::empty(d, {3})}); });
  registry.rejects(op, "digests_dtype", [=](Device& d) {
    cross_entropy(Tensor::empty(d, {2, 8}), targets(d, {1, 2}), {.digests = Tensor::empty(d, {2}, DType::i32)});
  });
  // A bad target must leave in-place logits as they were: thrown for the target, and for nothing else.
  registry.rejects(op, "fault_writes_nothing", [=](Device& d) {
    const std::vector<float> values(16, 1.0f);
    const Tensor logits = Tensor::from_host(d, {2, 8}, values);
    try {
      cross_entropy_in_place(logits, targets(d, {3, 8}));
      d.synchronize();
    } catch (const Error&) {
      if (logits.to_host<float>() == values) throw;
    }
  });
}

}  // namespace weft::spec
