#include <cmath>

#include "weft/ops/rope/rope.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Size {
  int64_t B, T, H, D, R;
};

struct Variant {
  RopePairs pairs = RopePairs::half_split;
  bool inverse = false, in_place = false, by_head = false;  // by_head: x and y are stored [B, H, T, D]
  Layout layout = Layout::contiguous;
  double theta = 10000;
  std::vector<double> start;           // empty: absent
  std::vector<double> positions = {};  // empty: absent
};

// The float64 rotation of the head that begins at element `at`.
void turn(const Array& x, int64_t at, const Array& cos, const Array& sin, int64_t position, const Size& s, const Variant& v, Array& y) {
  const int64_t half = s.R / 2;
  for (int64_t i = 0; i < half; ++i) {
    const bool halves = v.pairs == RopePairs::half_split;
    const int64_t first = halves ? at + i : at + 2 * i, second = halves ? first + half : first + 1;
    const double c = cos[position * half + i], sn = (v.inverse ? -1 : 1) * sin[position * half + i];
    // Each term passes two roundings: its product and the sum.
    y.expect(first, x[first] * c - x[second] * sn, std::abs(x[first] * c) + std::abs(x[second] * sn), 2);
    y.expect(second, x[second] * c + x[first] * sn, std::abs(x[second] * c) + std::abs(x[first] * sn), 2);
  }
  for (int64_t i = at + s.R; i < at + s.D; ++i) y.expect(i, x[i], 0, 0);
}

Problem problem(DType dtype, Size s, Variant v, Fill fill = normal()) {
  const int64_t half = s.R / 2;
  int64_t positions = s.T;
  for (double start : v.start) positions = std::max(positions, int64_t(start) + s.T);
  for (double position : v.positions) positions = std::max(positions, int64_t(position) + 1);
  const auto angle = [=](int64_t i) { return double(i / half) * std::pow(v.theta, -2.0 * double(i % half) / double(s.R)); };
  const Shape shape = v.by_head ? Shape{s.B, s.H, s.T, s.D} : Shape{s.B, s.T, s.H, s.D};
  Problem p;
  v.in_place ? p.in_place("x", dtype, shape, fill, v.layout)
             : p.input("x", dtype, shape, fill, v.layout).output("y", dtype, shape, v.layout);
  p.input("cos", DType::f32, {positions, half}, [=](PhiloxStream&, int64_t i) { return std::cos(angle(i)); });
  p.input("sin", DType::f32, {positions, half}, [=](PhiloxStream&, int64_t i) { return std::sin(angle(i)); });
  if (!v.start.empty()) p.input("start", DType::i32, {int64_t(v.start.size())}, listed(v.start));
  if (!v.positions.empty()) p.input("positions", DType::i32, {s.T}, listed(v.positions));
  p.launches<RopeArgs>(rope, [=](RopeArgs& a) {
    if (v.in_place) a.y = MutView{a.x};
    if (v.by_head)  // [B, H, T, D] seen as [B, T, H, D]
      for (View* view : {&a.x, static_cast<View*>(&a.y)})
        std::swap(view->shape[1], view->shape[2]), std::swap(view->strides[1], view->strides[2]);
    a.pairs = v.pairs, a.inverse = v.inverse;
  });
  const auto walk = [=](const Truth& t, Array& y, const Variant& variant) {
    for (int64_t b = 0; b < s.B; ++b)
      for (int64_t i = 0; i < s.T; ++i)
        for (int64_t h = 0; h < s.H; ++h) {
          const int64_t row = v.by_head ? (b * s.H + h) * s.T + i : (b * s.T + i) * s.H + h;
          const int64_t start = v.start.empty() ? 0 : int64_t(v.start[v.start.size() == 1 ? 0 : size_t(b)]);
          const int64_t position = v.positions.empty() ? start + i : int64_t(v.positions[size_t(i)]);
          turn(t["x"], row * s.D, t["cos"], t["sin"], position, s, variant, y);
        }
  };
  p.reference = [=](Truth& t) { walk(t, t[v.in_place ? result("x") : "y"], v); };
  if (v.inverse && !v.in_place) {
    // With x in the part of dy, the op's output is the derivative by z of <x, rope(z)>; z = 0 will do, as it is linear.
    p.input("z", dtype, shape, constant(0));
    p.loss = [=](const Truth& t) {
      Truth forward;
      for (const char* name : {"cos", "sin"}) forward.add(name, t[name]);
      forward.add("x", t["z"]);
      Array y = t["y"];
      Variant turned = v;
      turned.inverse = false;
      walk(forward, y, turned);
      double loss = 0;
      for (int64_t i = 0; i < y.size(); ++i) loss += y[i] * t["x"][i];
      return loss;
    };
    p.derivatives = {{"z", "y"}};
  }
  return p;
}

void add_golden(Registry& registry) {
  const auto source = [](const GoldenCase& g, bool inverse) {
    Variant v;
    v.inverse = inverse;
    v.theta = g.number("theta");
    v.start = {g.number("start")};
    const int64_t D = g.integer("head_dim");
    return problem(DType::f32, {1, g.integer("seq"), g.integer("heads"), D, D}, v);
  };
  registry.golden({"rope", "golden_forward", "rope_half.safetensors",
                   [=](const GoldenCase& g) { return source(g, false).given("x", g.values("x")).golden("y", g.values("y")); }});
  registry.golden({"rope", "golden_backward", "rope_half.safetensors",
                   [=](const GoldenCase& g) { return source(g, true).given("x", g.values("dy")).golden("y", g.values("dx")); }});
}

void add_rejections(Registry& registry) {
  const auto reject = [&](const char* name, Shape x, Shape cos, Shape sin, std::vector<int32_t> start) {
    registry.rejects("rope", name, [=](Device& d) {
      rope(Tensor::empty(d, x), RopeTable{Tensor::empty(d, cos), Tensor::empty(d, sin)},
           start.empty() ? Tensor() : Tensor::from_host(d, {int64_t(start.size())}, start));
    });
  };
  reject("rank", {2, 3, 8}, {4, 4}, {4, 4}, {});
  reject("more_pairs_than_elements", {1, 3, 2, 8}, {4, 5}, {4, 5}, {});
  reject("table_shapes_differ", {1, 3, 2, 8}, {4, 4}, {5, 4}, {});
  reject("table_rank", {1, 3, 2, 8}, {16}, {16}, {});
  reject("starts_of_other_batch", {3, 3, 2, 8}, {4, 4}, {4, 4}, {0, 0});
  reject("past_the_table", {2, 3, 2, 8}, {4, 4}, {4, 4}, {0, 2});
  reject("past_the_table_without_start", {2, 5, 2, 8}, {4, 4}, {4, 4}, {});
  reject("negative_position", {2, 3, 2, 8}, {4, 4}, {4, 4}, {-1});
  const auto reject_positions = [&](const char* name, int64_t B, std::vector<int32_t> positions, bool start = false) {
    registry.rejects("rope", name, [=](Device& d) {
      RopeOptions options{.positions = Tensor::from_host(d, {int64_t(positions.size())}, positions)};
      if (start) options.start = Tensor::from_host(d, {1}, std::vector<int32_t>{0});
      rope(Tensor::empty(d, {B, 3, 2, 8}), RopeTable{Tensor::empty(d, {4, 4}), Tensor::empty(d, {4, 4})}, options);
    });
  };
  reject_positions("positions_of_two_sequences", 2, {0, 1, 2});
  reject_positions("positions_of_other_length", 1, {0, 1});
  reject_positions("positions_past_the_table", 1, {0, 4, 0});
  reject_positions("positions_negative", 1, {0, 0, -1});
  reject_positions("positions_and_start", 1, {0, 1, 2}, true);
  registry.rejects("rope", "undefined_table", [](Device& d) { rope(Tensor::empty(d, {1, 1, 1, 4}), RopeTable{}, Tensor()); });
  registry.rejects("rope", "strided_elements", [](Device& d) {
    rope(Tensor::empty(d, {1, 3, 8, 2}).permute({0, 1, 3, 2}), RopeTable{Tensor::empty(d, {4, 4}), Tensor::empty(d, {4, 4})}, Tensor());
  });
  registry.rejects("rope", "integers", [](Device& d) {
    rope(Tensor::empty(d, {1, 3, 2, 8}, DType::i32), RopeTable{Tensor::empty(d, {4, 4}), Tensor::empty(d, {4, 4})}, Tensor());
  });
}

// Positions that restart, as those of packed documents do, and far ones.
void add_positions(Registry& registry, DType dtype) {
  const char* op = "rope";
  for (bool inverse : {false, true}) {
    const char* variant = inverse ? "inverse" : "forward";
    std::vector<double> restarting;
    for (int64_t t = 0; t < 67; ++t) restarting.push_back(double(t < 3 ? t : t < 4 ? 0 : t < 60 ? t - 4 : t - 60));
    const Variant v{.inverse = inverse, .start = {}, .positions = restarting};
    registry.add({op, variant, dtype, "1x67x3x64x64/positions", [=] { return problem(dtype, {1, 67, 3, 64, 64}, v); }});
    Variant by_head = v;
    by_head.by_head = true, by_head.pairs = RopePairs::interleaved;
    registry.add({op, variant, dtype, "1x67x2x33x32/positions_by_head", [=] { return problem(dtype, {1, 67, 2, 33, 32}, by_head); }});
    const Variant far_apart{.inverse = inverse, .in_place = true, .start = {}, .positions = {70000, 0, 65535, 4095, 4096}};
    registry.add({op, variant, dtype, "1x5x2x6x4/positions_far", [=] { return problem(dtype, {1, 5, 2, 6, 4}, far_apart); }});
  }
}

}  // namespace

void add_specs_rope(Registry& registry) {
  const char* op = "rope";
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (Size s : {Size{1, 1, 1, 2, 2}, Size{2, 7, 3, 64, 64}, Size{1, 5, 2, 30, 30}, Size{3, 4, 2, 33, 32}, Size{2, 67, 5, 128, 128},
                   Size{1, 3, 2, 80, 34}, Size{0, 3, 2, 8, 8}, Size{2, 0, 2, 8, 8}, Size{1, 2, 2, 6, 0}}) {
      std::vector<double> starts(size_t(s.B), 0);
      for (size_t b = 0; b < starts.size(); ++b) starts[b] = double(5 * b + 2);
      for (RopePairs pairs : {RopePairs::half_split, RopePairs::interleaved})
        for (bool inverse : {false, true}) {
          const std::string name = dims({s.B, s.T, s.H, s.D, s.R});
          const std::string variant =
              std::string(inverse ? "inverse" : "forward") + (pairs == RopePairs::interleaved ? "_interleaved" : "");
          const Variant v{.pairs = pairs, .inverse = inverse, .start = {}};
          const auto with = [&](const char* suffix, auto change) {
            Variant changed = v;
            change(changed);
            registry.add({op, variant, dtype, name + suffix, [=] { return problem(dtype, s, changed); }});
          };
          with("", [](Variant&) {});
          with("/padded", [](Variant& c) { c.layout = Layout::padded_rows, c.start = {3}; });
          with("/by_head", [&](Variant& c) { c.by_head = true, c.start = starts; });
          with("/in_place", [&](Variant& c) { c.in_place = true, c.start = starts; });
        }
    }
    registry.add(
        {op, "forward", dtype, "nan", [=] { return problem(dtype, {1, 5, 2, 34, 32}, {.start = {}}, sprinkle(normal(), 40, 3, NAN)); }});
    add_positions(registry, dtype);
    // Positions that 12 and 16 bits do not hold: by their starts, and in one long sequence.
    const std::vector<double> far{4095, 5000, 65535, 70000};
    for (bool inverse : {false, true}) {
      const char* variant = inverse ? "inverse" : "forward";
      registry.add(
          {op, variant, dtype, "4x3x2x6x4/far", [=] { return problem(dtype, {4, 3, 2, 6, 4}, {.inverse = inverse, .start = far}); }});
    }
    registry.add({op, "forward", dtype, "1x70001x1x2x2", [=] { return problem(dtype, {1, 70001, 1, 2, 2}, {.start = {}}); }});
    for (Size c : {Size{1, 128, 8, 128, 128}, Size{3, 131, 5, 80, 34}, Size{8, 1, 32, 128, 128}})
      for (bool own_starts : {false, true}) {
        const std::string name = dims({c.B, c.T, c.H, c.D, c.R}) + (own_starts ? "/starts" : "");
        const std::vector<double> starts(own_starts ? size_t(c.B) : 0, 3);
        for (RopePairs pairs : {RopePairs::half_split, RopePairs::interleaved})
          registry.count({op, pairs == RopePairs::interleaved ? "forward_interleaved" : "forward", dtype, name,
                          [=] { return problem(dtype, c, {.pairs = pairs, .start = starts}); }});
      }
    registry.count({op, "forward", dtype, "1x128x8x128x128/positions", [=] {
                      std::vector<double> restarting(128);
                      for (size_t t = 0; t < restarting.size(); ++t) restarting[t] = double(t % 50);
                      return problem(dtype, {1, 128, 8, 128, 128}, {.start = {}, .positions = restarting});
                    }});
    registry.bench({op, "forward", dtype, "8x1024x9x64", [=] { return problem(dtype, {8, 1024, 9, 64, 64}, {.start = {}}); }});
    registry.bench({op, "forward_interleaved", dtype, "8x1024x9x64",
                    [=] { return problem(dtype, {8, 1024, 9, 64, 64}, {.pairs = RopePairs::interleaved, .start = {}}); }});
  }
  for (Size c : {Size{16, 2048, 9, 64, 64}, Size{4, 4096, 32, 64, 64}})
    registry.bench_gpu({op, "forward", DType::bf16, dims({c.B, c.T, c.H, c.D}), [=] { return problem(DType::bf16, c, {.start = {}}); }});
  add_golden(registry);
  add_rejections(registry);
}

}  // namespace weft::spec
