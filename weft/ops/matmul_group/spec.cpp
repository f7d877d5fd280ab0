#include <cmath>

#include "weft/ops/fill/fill.h"
#include "weft/ops/matmul_group/matmul_group.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

constexpr const char* kOp = MatmulGroupArgs::kOp;

struct Right {
  int64_t N;
  bool transpose_b = true, bias = false;
};
struct Setup {
  DType in, out;
  Shape rows;  // a is [rows..., K]
  int64_t K;
  std::vector<Right> right;
  Layout layout = Layout::contiguous;
  bool alone = true;  // each matmul on its own as well, which must give the same bits

  Shape with(int64_t columns) const {
    Shape s = rows;
    s.push_back(columns);
    return s;
  }
};

std::string key(const char* name, size_t i) { return join(name, i); }

// As matmul's: a chain of K fused steps, and the bias.
void reference(const Setup& s, Truth& t) {
  for (size_t i = 0; i < s.right.size(); ++i) {
    const auto [N, transpose_b, bias] = s.right[i];
    const Array &a = t["a"], &b = t[key("b", i)];
    for (int64_t m = 0; m < s.rows.numel(); ++m)
      for (int64_t n = 0; n < N; ++n) {
        double value = bias ? t[key("bias", i)][n] : 0, size = std::abs(value);
        for (int64_t k = 0; k < s.K; ++k) {
          const double term = a[m * s.K + k] * b[transpose_b ? n * s.K + k : k * N + n];
          value += term;
          size += std::abs(term);
        }
        t[key("c", i)].expect(m * N + n, value, size, double(s.K) + 3);
      }
    if (s.alone) t[key("alone", i)] = t[key("c", i)];
  }
}

Problem problem(const Setup& s) {
  Problem p;
  p.input("a", s.in, s.with(s.K), normal(), s.layout);
  for (size_t i = 0; i < s.right.size(); ++i) {
    const auto [N, transpose_b, bias] = s.right[i];
    p.input(key("b", i), s.in, transpose_b ? Shape{N, s.K} : Shape{s.K, N}, normal(), s.layout);
    if (bias) p.input(key("bias", i), DType::f32, {N}, normal());
    p.output(key("c", i), s.out, s.with(N), s.layout);
    if (s.alone) p.output(key("alone", i), s.out, s.with(N), s.layout);
  }
  const auto args = [=](const Bound& b) {
    MatmulGroupArgs group{.a = b.view("a"), .members = {}};
    for (size_t i = 0; i < s.right.size(); ++i)
      group.members.push_back(
          {b.view(key("b", i)), b.mut(key("c", i)), s.right[i].bias ? b.view(key("bias", i)) : View{}, s.right[i].transpose_b});
    return group;
  };
  p.run = [=](Stream& stream, const Bound& b) {
    const MatmulGroupArgs group = args(b);
    matmul_group(stream, group);
    for (size_t i = 0; i < s.right.size() && s.alone; ++i) {
      MatmulArgs alone = group.member(i);
      alone.c = b.mut(key("alone", i));
      matmul(stream, alone);
      if (!stream.synchronous() || s.layout != Layout::contiguous || s.out != DType::f32) continue;
      check(b.tensor(key("c", i)).to_host<float>() == b.tensor(key("alone", i)).to_host<float>(), "check", "matmul ", i,
            " has other bits than alone");
    }
  };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { reference(s, t); };
  return p;
}

void add_cases(Registry& registry, DType in, DType out, const char* suffix) {
  const auto add = [&](const std::string& name, const Setup& s) {
    registry.add({kOp, "forward", in, name + suffix, [=] { return problem(s); }});
  };
  // Few rows (a decode step), one row more than those, and a prompt.
  for (int64_t rows : {1, 2, 4, 5, 33}) {
    add(join(rows, "x65/q_k_v"), {in, out, {rows}, 65, {{70, true, true}, {17, true, true}, {17, true, true}}});
    add(join(rows, "x65/q_k_v/padded"), {in, out, {rows}, 65, {{70}, {17}, {17}}, Layout::padded_rows});
    add(join(rows, "x300/gate_up"), {in, out, {rows}, 300, {{130}, {130}}});
    add(join(rows, "x40/as_stored"), {in, out, {rows}, 40, {{1000, false}, {33, true}, {64, false, true}, {1, true, true}}});
  }
  add("3x1x64/batch", {in, out, {3, 1}, 64, {{70}, {20, false}}});
  add("2x4x64/batch", {in, out, {2, 4}, 64, {{70}, {20, false}}});
  add("2x64/one", {in, out, {2}, 64, {{70}}});
  add("2x64/empty_member", {in, out, {2}, 64, {{0}, {7}, {0, false}}});
  add("0x64/no_rows", {in, out, {0}, 64, {{5}, {7}}});
  add("2x0/no_depth", {in, out, {2}, 0, {{5}, {7, true, true}}});
  registry.bench({kOp, "forward", in, join("1x576/q_k_v", suffix),
                  [=] { return problem({in, out, {1}, 576, {{576}, {192}, {192}}, Layout::contiguous, false}); }});
  registry.bench({kOp, "forward", in, join("1x576/gate_up", suffix),
                  [=] { return problem({in, out, {1}, 576, {{1536}, {1536}}, Layout::contiguous, false}); }});
  registry.bench_gpu({kOp, "forward", in, join("4x4096/q_k_v", suffix),
                      [=] { return problem({in, out, {4}, 4096, {{4096}, {1024}, {1024}}, Layout::contiguous, false}); }});
}

void add_rejections(Registry& registry) {
  const auto reject = [&](const char* name, std::function<void(Device&, Tensor & a, std::vector<RightOperand>&)> spoil) {
    registry.rejects(kOp, name, [=](Device& d) {
      Tensor a = zeros(d, {2, 6});
      std::vector<RightOperand> right(2, {zeros(d, {3, 6}), Tensor(), true});
      spoil(d, a, right);
      matmul_group(a, right);
    });
  };
  reject("too_many", [](Device&, Tensor&, auto& right) { right.resize(MatmulGroupArgs::kMost + 1, right[0]); });
  reject("undefined_a", [](Device&, Tensor& a, auto&) { a = Tensor(); });
  reject("undefined_b", [](Device&, Tensor&, auto& right) { right[1].b = Tensor(); });
  reject("inner_extents", [](Device& d, Tensor&, auto& right) { right[1].b = zeros(d, {3, 7}); });
  reject("own_b", [](Device& d, Tensor& a, auto& right) { a = zeros(d, {4, 2, 6}), right[1].b = zeros(d, {4, 3, 6}); });
  reject("dtypes_differ", [](Device& d, Tensor&, auto& right) { right[0].b = zeros(d, {3, 6}, DType::bf16); });
  reject("bias_shape", [](Device& d, Tensor&, auto& right) { right[1].bias = zeros(d, {4}); });
  reject("wants_gradient", [](Device&, Tensor& a, auto&) { a.set_requires_grad(); });
  const auto reject_launch = [&](const char* name, std::function<void(Device&, MatmulGroupArgs&, Tensor & kept)> spoil) {
    registry.rejects(kOp, name, [=](Device& d) {
      const Tensor a = zeros(d, {2, 6}, DType::bf16), b = zeros(d, {6, 3}, DType::bf16), c = zeros(d, {2, 3}), c2 = zeros(d, {2, 3});
      Tensor kept;
      MatmulGroupArgs args{.a = a.view(), .members = {{b.view(), c.mut_view(), {}}, {b.view(), c2.mut_view(), {}}}};
      spoil(d, args, kept);
      matmul_group(d.stream(), args);
    });
  };
  reject_launch("no_members", [](Device&, MatmulGroupArgs& args, Tensor&) { args.members.clear(); });
  reject_launch("results_of_two_dtypes", [](Device& d, MatmulGroupArgs& args, Tensor& kept) {
    kept = zeros(d, {2, 3}, DType::bf16);
    args.members[1].c = kept.mut_view();
  });
  reject_launch("result_shape", [](Device& d, MatmulGroupArgs& args, Tensor& kept) {
    kept = zeros(d, {2, 4});
    args.members[1].c = kept.mut_view();
  });
}

}  // namespace

void add_specs_matmul_group(Registry& registry) {
  add_cases(registry, DType::f32, DType::f32, "");
  add_cases(registry, DType::bf16, DType::bf16, "");
  add_cases(registry, DType::bf16, DType::f32, "/to_f32");
  add_rejections(registry);
}

}  // namespace weft::spec
