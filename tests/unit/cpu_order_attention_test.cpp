// Attention has the bits of the CPU's one order, whether a query came in a training batch, in a chunk of a prompt or alone.
// tests/cpu_order.cmake runs this for every kind of bf16 and for AVX2.
#include <gtest/gtest.h>

#include "tests/unit/cpu_order_attention.h"
#include "weft/backends/open.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/kv_attention/kv_attention.h"

namespace weft::cpu_order {
namespace {

struct Sizes {
  int64_t T, H, Hkv, D;
  DType dtype;
  bool by_head;            // [B, heads, T, D] in memory
  float spread, smallest;  // of scores; of values
};

std::ostream& operator<<(std::ostream& out, const Sizes& s) {
  return out << s.dtype << " T " << s.T << " heads " << s.H << '/' << s.Hkv << " D " << s.D << (s.by_head ? " by head" : "") << " spread "
             << s.spread << " values " << s.smallest;
}

// Two sequences with q, k and v of T positions, and their outputs by the slow code.
class Sequences {
 public:
  Sequences(Device& device, Values& values, const Sizes& s)
      : s_(s),
        q_(values.normal(2 * s.T * s.H * s.D, s.dtype, s.spread)),
        k_(values.normal(2 * s.T * s.Hkv * s.D, s.dtype)),
        v_(values.normal(2 * s.T * s.Hkv * s.D, s.dtype, s.smallest)),
        q(tensor(device, q_, s.H)),
        k(tensor(device, k_, s.Hkv)),
        v(tensor(device, v_, s.Hkv)) {}

  // The outputs of position t of sequence b, [H][D].
  std::vector<float> expected(int64_t b, int64_t t) const {
    std::vector<float> o;
    for (int64_t h = 0; h < s_.H; ++h) {
      const Attention attention{s_.dtype, s_.D, 1 / std::sqrt(float(s_.D))};
      const int64_t hk = h / (s_.H / s_.Hkv);
      const auto row = [&](const std::vector<float>& x, int64_t heads, int64_t head, int64_t t) {
        return x.data() + (s_.by_head ? (b * heads + head) * s_.T + t : (b * s_.T + t) * heads + head) * s_.D;
      };
      const std::vector<float> one = attention(
          row(q_, s_.H, h, t), t + 1, [&](int64_t j) { return row(k_, s_.Hkv, hk, j); }, [&](int64_t j) { return row(v_, s_.Hkv, hk, j); });
      o.insert(o.end(), one.begin(), one.end());
    }
    return o;
  }

 private:
  Tensor tensor(Device& device, const std::vector<float>& values, int64_t heads) const {
    const Shape shape = s_.by_head ? Shape{2, heads, s_.T, s_.D} : Shape{2, s_.T, heads, s_.D};
    const Tensor x = cast(Tensor::from_host(device, shape, values), s_.dtype);
    return s_.by_head ? x.permute({0, 2, 1, 3}) : x;
  }

  const Sizes s_;
  const std::vector<float> q_, k_, v_;

 public:
  const Tensor q, k, v;  // [2, T, heads, D]
};

void expect_same(const Tensor& o, int64_t b, int64_t t, const std::vector<float>& expected, const std::string& what) {
  const Tensor one = o.part(0, b, b + 1).part(1, t, t + 1);
  const std::vector<float> got = cast(contiguous(one), DType::f32).to_host<float>();
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected[i])) << what << ", element " << i << " of position " << t;
}

// Positions [first, first + count) of both sequences, which hold `first` positions; sequence 1 may hold fewer.
Tensor read_cache(Device& device, const Sequences& x, int64_t first, int64_t second, int64_t count) {
  const auto rows = [&](const Tensor& t, int64_t b, int64_t from) { return t.part(0, b, b + 1).part(1, from, from + count); };
  const Tensor q = Tensor::empty(device, {2, count, x.q.shape()[2], x.q.shape()[3]}, x.q.dtype());
  copy(rows(x.q, 0, first), q.part(0, 0, 1));
  copy(rows(x.q, 1, second), q.part(0, 1, 2));
  return kv_attention(q, x.k, x.v, Tensor::from_host(device, {2}, std::vector<int32_t>{int32_t(first), int32_t(second)}));
}

void check(Device& device, Values& values, const Sizes& s) {
  const Sequences x(device, values, s);
  const Tensor trained = causal_attention(x.q, x.k, x.v);
  for (int i = 0; i < 6 && !testing::Test::HasFailure(); ++i) {
    const int64_t t = i == 0 ? s.T - 1 : values.from(0, s.T - 1), other = values.from(0, t);
    const std::vector<float> want = x.expected(0, t), want_other = x.expected(1, other);
    const auto what = [&](const char* how) { return (std::ostringstream() << s << ", " << how).str(); };
    expect_same(trained, 0, t, want, what("training"));
    expect_same(trained, 1, other, want_other, what("training"));
    const Tensor decoded = read_cache(device, x, t, other, 1);
    expect_same(decoded, 0, 0, want, what("decode"));
    expect_same(decoded, 1, 0, want_other, what("decode"));
    for (int64_t count : {2, 5, 23, 70, 150}) {
      if (count > other + 1) continue;
      const int64_t place = values.from(0, count - 1), back = std::min(place, other);
      if (t - back + count > s.T) continue;
      const Tensor chunk = read_cache(device, x, t - back, other - back, count);
      expect_same(chunk, 0, back, want, what("chunk"));
      expect_same(chunk, 1, back, want_other, what("chunk"));
    }
  }
}

TEST(CpuOrder, attention_of_any_shape) {
  const auto device = open_device("cpu");
  Values values(21);
  constexpr int64_t kHeads[][2] = {{1, 1}, {3, 3}, {6, 2}, {9, 3}, {8, 1}, {16, 1}, {20, 20}};
  for (int i = 0; i < 40 && !testing::Test::HasFailure(); ++i) {
    const auto& heads = kHeads[size_t(values.from(0, 6))];
    check(*device, values,
          {values.one_of({int64_t(1), int64_t(5), int64_t(63), int64_t(65), int64_t(130), int64_t(300)}), heads[0], heads[1],
           values.one_of({int64_t(16), int64_t(32), int64_t(48), int64_t(64), int64_t(80), int64_t(5), int64_t(33)}),
           i % 2 ? DType::f32 : DType::bf16, values.from(0, 2) == 0, values.one_of({1.0f, 20.0f, 0x1p-70f}),
           values.one_of({1.0f, 1.0f, 0x1p-80f, 0x1p-125f})});
  }
}

// Several segments of keys; queries of one tile in different segments of a chunk.
TEST(CpuOrder, attention_over_segments) {
  const auto device = open_device("cpu");
  Values values(22);
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t T : {513, 600, 1100}) check(*device, values, {T, 4, 2, 64, dtype, false, 3, 1});
}

}  // namespace
}  // namespace weft::cpu_order
