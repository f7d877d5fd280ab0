// The one order of sums on Metal, kernel by kernel: every fast kernel has the bytes of a slow one in exactly the order of
// docs/numerics.md (tests/metal/one_order.metal), and a row has the same bytes alone and among others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "weft/backends/open.h"
#include "weft/base/philox.h"
#include "weft/ops/ops.h"
#include "weft/tensor/node.h"
#include "weft/tile/metal/key_segments.h"
#include "weft/tile/metal/launch.h"

namespace weft {
namespace {

// As the structs of one_order.metal.
struct Product {
  int M, N, K, transposed, bf16, bf16_out, bias, place;
};
struct Attention {
  int T, H, Hkv, D, tile, span, segment, bf16, place;
  float scale;
};

std::vector<uint8_t> bytes(const Tensor& x) {
  const Tensor whole = contiguous(x);
  const auto copied = [](const auto& values) {
    const auto* first = reinterpret_cast<const uint8_t*>(values.data());
    return std::vector<uint8_t>(first, first + values.size() * sizeof values[0]);
  };
  return x.dtype() == DType::bf16 ? copied(whole.to_host<bf16>()) : copied(whole.to_host<float>());
}

class MetalOrder : public testing::Test {
 protected:
  const NoGrad no_grad;
  const char* const named = std::getenv("WEFT_TEST_DEVICE");
  const std::shared_ptr<Device> device = open_device(named ? named : "metal-sim");
  PhiloxStream random{17};

  Tensor normal(const Shape& shape, DType dtype) {
    std::vector<float> values(size_t(shape.numel()));
    for (float& v : values) v = float(random.normal());
    return cast(Tensor::from_host(*device, shape, values), dtype);
  }
  Tensor starts(const std::vector<int32_t>& values) { return Tensor::from_host(*device, {int64_t(values.size())}, values); }

  template <class Params>
  void reference(const char* kernel, std::array<int64_t, 3> groups, const std::vector<metal::Argument>& operands, const Params& p) {
    static const std::string text = (std::stringstream() << std::ifstream(WEFT_METAL_ONE_ORDER).rdbuf()).str();
    std::vector<metal::Argument> arguments = operands;
    arguments.push_back(metal::params(p));
    const uint64_t serial = (uint64_t(1) << 63) + uint64_t(kernel[0]);  // beyond those of expressions
    metal::launch_text(device->stream(), "reference", serial, text, kernel, {.groups = groups, .threads = 32}, arguments);
  }

  Tensor slow_product(const Tensor& x, const Tensor& w, const Tensor& bias, bool transposed, DType out) {
    const int M = int(x.shape()[0]), K = int(x.shape()[1]), N = int(w.shape()[transposed ? 0 : 1]);
    Tensor c = Tensor::empty(*device, {M, N}, out);
    reference("product", {(N + 7) / 8, M, 1}, {metal::in(x.view()), metal::in(w.view()), metal::in(bias.view()), metal::out(c.mut_view())},
              Product{M, N, K, transposed, x.dtype() == DType::bf16, out == DType::bf16, 1, int(random.below(8))});
    return c;
  }
  Tensor slow_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
    const Shape& s = q.shape();
    const int D = int(s[3]), tile = D <= 64 ? 32 : D <= 128 ? 16 : 8;
    Tensor o = Tensor::empty(*device, s, q.dtype());
    reference("attention", {s[1], s[2], s[0]}, {metal::in(q.view()), metal::in(k.view()), metal::in(v.view()), metal::out(o.mut_view())},
              Attention{int(s[1]), int(s[2]), int(k.shape()[2]), D, tile, 128, kKeySegment, q.dtype() == DType::bf16, int(random.below(8)),
                        1 / std::sqrt(float(D))});
    return o;
  }
};

TEST_F(MetalOrder, matmul_has_the_reference_order_for_any_number_of_rows) {
  const std::pair<DType, DType> types[] = {{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}};
  for (int draw = 0; draw < 24; ++draw) {
    const auto [in, out] = types[draw % 3];
    const bool transposed = draw / 3 % 2;
    const int64_t M = draw % 4 == 0 ? 1 : draw % 4 == 3 ? 9 + random.below(40) : 2 + random.below(7);
    const int64_t N = 1 + random.below(70), K = 1 + random.below(300);
    const Tensor x = normal({M, K}, in), w = normal(transposed ? Shape{N, K} : Shape{K, N}, in), bias = normal({N}, DType::f32);
    const Tensor fast = matmul(x, w, {.transpose_b = transposed, .bias = bias, .out_dtype = out});
    EXPECT_EQ(bytes(fast), bytes(slow_product(x, w, bias, transposed, out))) << M << "x" << N << "x" << K << " " << in << transposed;
  }
}

// Enough blocks for the large ones, with an activation and what it keeps; rows alone, unaligned, or in a batch that shares B.
TEST_F(MetalOrder, rows_of_a_matmul_do_not_depend_on_the_others) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool transposed : {false, true})
      for (const Activation f : {Activation::none, Activation::silu, Activation::gelu_tanh}) {
        const int64_t M = 65, N = 2050, K = 41;
        const Tensor x = normal({M, K}, dtype), w = normal(transposed ? Shape{N, K} : Shape{K, N}, dtype), bias = normal({N}, dtype);
        const MatmulOptions options{.transpose_b = transposed, .bias = bias, .activation = f};
        const Tensor all = matmul(x, w, options);
        for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {7, 1}, {63, 2}, {5, 8}, {11, 9}, {1, 40}})
          EXPECT_EQ(bytes(matmul(slice(x, 0, first, first + count), w, options)), bytes(slice(all, 0, first, first + count)))
              << dtype << transposed << " rows " << first << " to " << first + count;
        const Tensor batch = slice(x, 0, 0, 6).reshape({3, 2, K});
        EXPECT_EQ(bytes(matmul(slice(batch, 1, 1, 2), w, options)), bytes(slice(slice(all, 0, 0, 6).reshape({3, 2, N}), 1, 1, 2)));
      }
}

struct Heads {
  int64_t B, T, H, Hkv, D;
};

class MetalAttentionOrder : public MetalOrder {
 protected:
  Tensor q, k, v, slow;

  void draw(const Heads& s, DType dtype) {
    q = normal({s.B, s.T, s.H, s.D}, dtype), k = normal({s.B, s.T, s.Hkv, s.D}, dtype), v = normal({s.B, s.T, s.Hkv, s.D}, dtype);
    slow = slow_attention(q, k, v);
  }
  // Queries [first, last) of every sequence over the cache.
  void expect_cached(int64_t first, int64_t last) {
    const Tensor o = kv_attention(slice(q, 1, first, last), k, v, starts(std::vector<int32_t>(size_t(q.shape()[0]), int32_t(first))));
    EXPECT_EQ(bytes(o), bytes(slice(slow, 1, first, last))) << "queries " << first << " to " << last;
  }
  // One query of each of many sequences that are this one up to another position: the threadgroups have all segments.
  void expect_batched(int64_t B) {
    std::vector<int32_t> positions;
    const int64_t T = q.shape()[1];
    Tensor qs = Tensor::empty(*device, {B, 1, q.shape()[2], q.shape()[3]}, q.dtype()), os = Tensor::empty(*device, qs.shape(), q.dtype());
    Tensor ks = Tensor::empty(*device, {B, T, k.shape()[2], k.shape()[3]}, q.dtype()), vs = Tensor::empty(*device, ks.shape(), q.dtype());
    for (int64_t b = 0; b < B; ++b) {
      const int64_t t = b % 3 == 0 ? T - 1 - b / 3 % T : random.below(T);
      positions.push_back(int32_t(t));
      copy(slice(slice(q, 0, 0, 1), 1, t, t + 1), slice(qs, 0, b, b + 1));
      copy(slice(slice(slow, 0, 0, 1), 1, t, t + 1), slice(os, 0, b, b + 1));
      copy(slice(k, 0, 0, 1), slice(ks, 0, b, b + 1));
      copy(slice(v, 0, 0, 1), slice(vs, 0, b, b + 1));
    }
    EXPECT_EQ(bytes(kv_attention(qs, ks, vs, starts(positions))), bytes(os)) << B << " sequences";
  }
};

TEST_F(MetalAttentionOrder, training_prompts_and_decoding_have_the_reference_order) {
  for (const Heads& s : {Heads{1, 300, 2, 1, 8}, {2, 70, 4, 2, 20}, {1, 37, 9, 1, 64}, {1, 270, 1, 1, 72}, {1, 262, 1, 1, 136}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(testing::Message() << s.T << " tokens, heads of " << s.D << ", " << dtype);
      draw(s, dtype);
      EXPECT_EQ(bytes(causal_attention(q, k, v)), bytes(slow));
      for (int64_t t = 0; t < s.T;) {  // a prompt in chunks of any size, some of one token
        const int64_t next = std::min(s.T, t + 1 + random.below(random.below(4) == 0 ? 90 : 4));
        expect_cached(t, next);
        t = next;
      }
      for (const int64_t t : {int64_t(0), s.T / 2, int64_t(255), int64_t(256), s.T - 1})
        if (t < s.T) expect_cached(t, t + 1);
      expect_batched(3);
      if (s.D * s.T < 20000) expect_batched(128 / s.Hkv);
    }
}

// Two rows among many, alone, and at another alignment.
TEST_F(MetalOrder, row_ops_do_not_depend_on_the_other_rows) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t C : {24, 61, 576, 2052}) {
      const Tensor x = normal({70, C}, dtype), residual = normal({70, C}, dtype), w = normal({C}, dtype), b = normal({C}, dtype);
      const auto same = [&](const char* op, const auto& f) {
        const Tensor all = f(x, residual);
        for (const int64_t r : {0, 33, 69})
          EXPECT_EQ(bytes(f(slice(x, 0, r, r + 1), slice(residual, 0, r, r + 1))), bytes(slice(all, 0, r, r + 1))) << op << " " << C;
      };
      same("rms_norm", [&](const Tensor& rows, const Tensor&) { return rms_norm(rows, w, 1e-5f); });
      same("rms_norm_residual", [&](const Tensor& rows, const Tensor& more) { return rms_norm_residual(rows, more, w, 1e-5f).y; });
      same("layer_norm", [&](const Tensor& rows, const Tensor&) { return layer_norm(rows, w, b, 1e-5f); });
      same("softmax", [&](const Tensor& rows, const Tensor&) { return softmax(rows); });
    }
}

}  // namespace
}  // namespace weft
