// A position has the same bits wherever its attention is computed: in a training forward pass, in a prompt in chunks of any size, decoded
// alone or in a batch, from rows of any alignment. On a GPU:
//   WEFT_TEST_DEVICE=cuda build/release/tests/attention_order_test
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "tests/unit/test_device.h"
#include "weft/base/philox.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

struct Case {
  int64_t T, Hkv, group, D;
  DType dtype;
  int64_t window = 0;
  float soft_cap = 0;

  int64_t H() const { return Hkv * group; }
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name(c.dtype) << " T " << c.T << ", " << c.Hkv << " key heads of " << c.group << " heads, D " << c.D << ", window "
             << c.window << ", soft cap " << c.soft_cap;
}

// Rows [1, T, heads, D], then NaN up to `capacity` and in the `padding` after each row, which makes rows unaligned if it is odd.
template <class T>
Tensor make_rows(Device& device, const Case& c, int64_t heads, int64_t capacity, int64_t padding, uint64_t seed, float size) {
  PhiloxStream random(seed);
  const int64_t pitch = c.D + padding;
  std::vector<T> values(size_t(capacity * heads * pitch), T(NAN));
  for (int64_t row = 0; row < c.T * heads; ++row)
    for (int64_t d = 0; d < c.D; ++d) values[size_t(row * pitch + d)] = T(size * float(random.normal()));
  return Tensor::from_host(device, {1, capacity, heads, pitch}, values).part(3, 0, c.D);
}

// [first, ...) of T as sequences of one query or key each (axis 0), or the whole of T repeated for each.
View per_sequence(View rows, int64_t first, int64_t count) {
  rows = part(rows, 1, first, first + 1);
  rows.shape[0] = count, rows.strides[0] = rows.strides[1];
  return rows;
}
View repeated(View rows, int64_t count) {
  rows.shape[0] = count, rows.strides[0] = 0;
  return rows;
}

template <class T>
class Attention {
 public:
  Attention(Device& device, const Case& c, int64_t padding)
      : device_(device),
        c_(c),
        q(make_rows<T>(device, c, c.H(), c.T, padding, 1, 3)),  // size 3: maxima move from tile to tile
        k(make_rows<T>(device, c, c.Hkv, c.T + 37, padding, 2, 1)),
        v(make_rows<T>(device, c, c.Hkv, c.T + 37, padding, 3, 1)) {}

  std::vector<T> trained() const {
    return causal_attention(q, k.part(1, 0, c_.T), v.part(1, 0, c_.T), {.window = c_.window, .soft_cap = c_.soft_cap})
        .template to_host<T>();
  }

  // Queries [first, first + count) of one sequence in one call.
  std::vector<T> chunk(int64_t first, int64_t count) const {
    const Tensor o = Tensor::empty(device_, {1, count, c_.H(), c_.D}, c_.dtype);
    attend(part(q.view(), 1, first, first + count), k.view(), v.view(), {int32_t(first)}, o);
    return o.template to_host<T>();
  }
  // The same queries, each as a sequence of its own.
  std::vector<T> batch(int64_t first, int64_t count) const {
    const Tensor o = Tensor::empty(device_, {count, 1, c_.H(), c_.D}, c_.dtype);
    std::vector<int32_t> start(static_cast<size_t>(count));
    std::iota(start.begin(), start.end(), int32_t(first));
    attend(per_sequence(q.view(), first, count), repeated(k.view(), count), repeated(v.view(), count), start, o);
    return o.template to_host<T>();
  }

 private:
  void attend(const View& queries, const View& keys, const View& values, const std::vector<int32_t>& start, const Tensor& o) const {
    const Tensor starts = Tensor::from_host(device_, {int64_t(start.size())}, start);
    kv_attention(device_.stream(), {.q = queries,
                                    .k_cache = keys,
                                    .v_cache = values,
                                    .start = starts.view(),
                                    .o = o.mut_view(),
                                    .scale = 1 / std::sqrt(float(c_.D)),
                                    .window = c_.window,
                                    .soft_cap = c_.soft_cap});
  }

  Device& device_;
  const Case c_;
  const Tensor q, k, v;
};

class AttentionOrder : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { device = open_device(test_device()); }

  // Whether the rows of positions [first, ...) are those of training, byte by byte.
  template <class T>
  void expect_rows(const std::vector<T>& rows, int64_t first, const std::vector<T>& trained, const std::string& what) const {
    const int64_t row = GetParam().H() * GetParam().D, offset = first * row;
    int64_t differ = 0, at = -1;
    for (int64_t i = int64_t(rows.size()) - 1; i >= 0; --i)
      if (std::memcmp(&rows[size_t(i)], &trained[size_t(offset + i)], sizeof(T)) != 0) ++differ, at = i;
    ASSERT_EQ(differ, 0) << what << ": of " << rows.size() << " elements; the first at position " << first + at / row << ", element "
                         << at % row << ": " << float(rows[size_t(std::max<int64_t>(at, 0))]) << ", trained "
                         << float(trained[size_t(offset + std::max<int64_t>(at, 0))]);
  }

  template <class T>
  void run() const {
    const Case& c = GetParam();
    const NoGrad no_grad;
    const std::vector<T> trained = Attention<T>(*device, c, 0).trained();
    for (const T x : trained) ASSERT_TRUE(std::isfinite(float(x)));
    for (const int64_t padding : {0, 1}) {
      const Attention<T> attention(*device, c, padding);
      const std::string rows = padding ? "unaligned rows, " : "aligned rows, ";
      expect_rows(attention.trained(), 0, trained, rows + "training");
      expect_rows(attention.batch(0, c.T), 0, trained, rows + "decoding all positions in a batch");
      for (const int64_t count : {2, 5, 20}) expect_rows(attention.batch(c.T - count, count), c.T - count, trained, rows + "a batch");
      for (const int64_t first : {0, 1, 62, 63, 64, 65, 126, 127, 128, 129, 255, 256, 257, 299, 895, 896, 897, 1023, 1024, 1025})
        if (first < c.T) expect_rows(attention.batch(first, 1), first, trained, rows + "decoding alone");
      for (const int64_t size : {7, 64, 200})
        for (int64_t first = 0; first < c.T; first += size) {
          const int64_t count = std::min(size, c.T - first);
          expect_rows(attention.chunk(first, count), first, trained, rows + "chunks of " + std::to_string(size));
        }
      if (HasFatalFailure()) return;
    }
  }

  std::shared_ptr<Device> device;
};

TEST_P(AttentionOrder, training_prompts_and_decoding_have_the_same_bits) { GetParam().dtype == DType::bf16 ? run<bf16>() : run<float>(); }

// Head dims of every padded size; groups of one, several and more heads than a block has; lengths of one tile and of several rounds.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const auto& [T, Hkv, group, D] : std::vector<std::array<int64_t, 4>>{{30, 2, 1, 16},
                                                                              {300, 2, 3, 40},
                                                                              {2100, 2, 4, 64},
                                                                              {300, 1, 20, 64},
                                                                              {300, 2, 8, 80},
                                                                              {300, 3, 1, 96},
                                                                              {1100, 1, 4, 128},
                                                                              {300, 1, 8, 160},
                                                                              {1100, 1, 3, 256}})
      all.push_back({T, Hkv, group, D, dtype});
    for (const auto& [T, Hkv, group, D, window] : std::vector<std::array<int64_t, 5>>{{300, 2, 3, 40, 1},
                                                                                      {300, 2, 4, 64, 64},
                                                                                      {700, 1, 2, 16, 37},
                                                                                      {1300, 1, 2, 64, 600},
                                                                                      {300, 1, 2, 256, 130},
                                                                                      {300, 1, 20, 32, 65}})
      all.push_back({T, Hkv, group, D, dtype, window});
    all.push_back({300, 2, 2, 64, dtype, 0, 2});
    all.push_back({600, 1, 3, 128, dtype, 100, 1.5});
    all.push_back({300, 1, 2, 256, dtype, 77, 4});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(, AttentionOrder, testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  return std::string(name(c.dtype)) + "_T" + std::to_string(c.T) + "_K" + std::to_string(c.Hkv) + "_G" + std::to_string(c.group) + "_D" +
         std::to_string(c.D) + (c.window > 0 ? "_W" + std::to_string(c.window) : "") + (c.soft_cap > 0 ? "_capped" : "");
});

}  // namespace
}  // namespace weft
