// Attention over packed documents has the bits of each document alone: o, lse, dq, dk and dv.
// tests/cpu_order.cmake runs this for every kind of bf16 and for AVX2. On a GPU:
//   WEFT_TEST_DEVICE=cuda build/release/tests/document_attention_test
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/unit/attention_launch.h"
#include "tests/unit/test_device.h"
#include "weft/autograd/backward.h"
#include "weft/base/philox.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/packed_attention/packed_attention.h"

namespace weft {
namespace {

struct Options {
  DType dtype;
  int64_t H, Hkv, D;
  int64_t window = 0;
  float soft_cap = 0;
};

std::ostream& operator<<(std::ostream& out, const Options& o) {
  return out << o.dtype << " heads " << o.H << '/' << o.Hkv << " D " << o.D << " window " << o.window << " soft cap " << o.soft_cap;
}

Tensor normal(Device& device, const Shape& shape, DType dtype, uint64_t seed) {
  PhiloxStream random(seed, 0);
  std::vector<float> values(size_t(shape.numel()));
  for (float& v : values) v = float(random.normal());
  return cast(Tensor::from_host(device, shape, values), dtype);
}

std::vector<uint8_t> bytes(const Tensor& t) {
  const Tensor packed = contiguous(t);
  std::vector<uint8_t> result(size_t(packed.numel() * size_of(packed.dtype())));
  packed.read_bytes(packed.dtype(), result.data(), int64_t(result.size()));
  return result;
}

// Inputs and outputs of T tokens; `of` is the tokens of one document of them.
struct Attended {
  Tensor q, k, v, dout, o, lse, dq, dk, dv;

  Attended(Device& d, const Options& s, int64_t T) {
    q = normal(d, {1, T, s.H, s.D}, s.dtype, 1), dout = normal(d, {1, T, s.H, s.D}, s.dtype, 2);
    k = normal(d, {1, T, s.Hkv, s.D}, s.dtype, 3), v = normal(d, {1, T, s.Hkv, s.D}, s.dtype, 4);
    make_outputs(d);
  }
  Attended(Device& d, const Attended& all, int64_t first, int64_t last) {
    q = contiguous(all.q.part(1, first, last)), dout = contiguous(all.dout.part(1, first, last));
    k = contiguous(all.k.part(1, first, last)), v = contiguous(all.v.part(1, first, last));
    make_outputs(d);
  }
  void make_outputs(Device& d) {
    o = Tensor::empty(d, q.shape(), q.dtype()), lse = Tensor::empty(d, {1, q.shape()[2], q.shape()[1]});
    dq = Tensor::empty(d, q.shape(), q.dtype());
    dk = Tensor::empty(d, k.shape(), q.dtype()), dv = Tensor::empty(d, k.shape(), q.dtype());
  }
  void compute(Stream& stream, const Options& s, const View& documents) {
    const LaunchOptions options{1 / std::sqrt(float(s.D)), s.window, s.soft_cap, documents};
    launch_forward(stream, *this, options);
    launch_backward(stream, *this, options);
  }
};

void expect_bits_of_documents_alone(const Options& s, const std::vector<int32_t>& documents) {
  SCOPED_TRACE(::testing::PrintToString(s));
  const auto device = open_device(test_device());
  Attended packed(*device, s, documents.back());
  packed.compute(device->stream(), s, Tensor::from_host(*device, {int64_t(documents.size())}, documents).view());
  for (size_t d = 0; d + 1 < documents.size(); ++d) {
    const int64_t first = documents[d], last = documents[d + 1];
    if (first == last) continue;
    SCOPED_TRACE(join("document ", first, " to ", last));
    Attended alone(*device, packed, first, last);
    alone.compute(device->stream(), s, {});
    EXPECT_EQ(bytes(packed.o.part(1, first, last)), bytes(alone.o));
    EXPECT_EQ(bytes(packed.lse.part(2, first, last)), bytes(alone.lse));
    EXPECT_EQ(bytes(packed.dq.part(1, first, last)), bytes(alone.dq));
    EXPECT_EQ(bytes(packed.dk.part(1, first, last)), bytes(alone.dk));
    EXPECT_EQ(bytes(packed.dv.part(1, first, last)), bytes(alone.dv));
  }
}

const std::vector<int32_t> kDocuments{0, 1, 1, 66, 130, 131, 400, 400, 1000, 1007};

TEST(DocumentAttention, has_the_bits_of_each_document_alone) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (Options s : {Options{dtype, 4, 2, 64}, Options{dtype, 2, 1, 80}, Options{dtype, 3, 3, 20}, Options{dtype, 2, 1, 100},
                      Options{dtype, 2, 1, 256}})
      expect_bits_of_documents_alone(s, kDocuments);
}

TEST(DocumentAttention, has_the_bits_of_each_document_alone_with_a_window_and_a_soft_cap) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (Options s :
         {Options{dtype, 4, 2, 16, 70}, Options{dtype, 2, 1, 64, 0, 5}, Options{dtype, 2, 2, 20, 33, 2}, Options{dtype, 2, 1, 128, 140, 8}})
      expect_bits_of_documents_alone(s, kDocuments);
}

// Plain, with all tokens in one document, with empty documents around it, and with a window that takes all.
TEST(DocumentAttention, one_document_is_the_plain_sequence) {
  const auto device = open_device(test_device());
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Options s{dtype, 4, 2, 32};
    Attended plain(*device, s, 700);
    plain.compute(device->stream(), s, {});
    const auto expect_same = [&](const Options& options, const std::vector<int32_t>& documents) {
      Attended other(*device, options, 700);
      other.compute(device->stream(), options,
                    documents.empty() ? View() : Tensor::from_host(*device, {int64_t(documents.size())}, documents).view());
      for (auto member : {&Attended::o, &Attended::lse, &Attended::dq, &Attended::dk, &Attended::dv})
        EXPECT_EQ(bytes(other.*member), bytes(plain.*member));
    };
    expect_same(s, {0, 700});
    expect_same(s, {0, 0, 700, 700, 700});
    expect_same({dtype, 4, 2, 32, 700}, {});
    expect_same({dtype, 4, 2, 32, 1 << 30}, {0, 700});
  }
}

// Rows of an odd number of elements, which kernels for aligned rows do not take.
TEST(DocumentAttention, unaligned_rows_have_the_bits_of_aligned_ones_in_a_window) {
  const auto device = open_device(test_device());
  const auto unaligned = [&](const Tensor& x) {
    Shape shape = x.shape();
    shape[3] |= 1;
    const Tensor rows = Tensor::empty(*device, shape, x.dtype()).part(3, 0, x.shape()[3]);
    copy(x, rows);
    return rows;
  };
  for (const Options& s : {Options{DType::bf16, 2, 1, 64, 70}, Options{DType::bf16, 2, 1, 128, 200, 8}}) {
    Attended aligned(*device, s, 700), other = aligned;
    other.make_outputs(*device);
    for (auto member : {&Attended::q, &Attended::k, &Attended::v, &Attended::dout}) other.*member = unaligned(aligned.*member);
    const Tensor documents = Tensor::from_host(*device, {4}, std::vector<int32_t>{0, 30, 470, 700});
    aligned.compute(device->stream(), s, documents.view());
    other.compute(device->stream(), s, documents.view());
    for (auto member : {&Attended::o, &Attended::lse}) EXPECT_EQ(bytes(other.*member), bytes(aligned.*member)) << s;
  }
}

TEST(DocumentAttention, bad_lengths_are_named) {
  const auto device = open_device(test_device());
  const Tensor q = normal(*device, {1, 8, 1, 4}, DType::f32, 5);
  const auto message = [&](const std::vector<int32_t>& documents) {
    try {
      causal_attention(q, q, q, {.documents = Tensor::from_host(*device, {int64_t(documents.size())}, documents)});
      device->synchronize();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto expect = [&](const std::vector<int32_t>& documents, const std::string& found, const std::string& expected) {
    const std::string said = message(documents);
    EXPECT_NE(said.find(found + (on_cpu() ? expected : ", expected")), std::string::npos) << said;
  };
  expect({0, 5, 3, 8}, "documents[2] is 3", ", expected 5 to 8");
  expect({0, 9}, "documents[1] is 9", ", expected 0 to 8");
  expect({0, 7}, "documents[1] is 7", ", expected the number of tokens, 8");
  expect({2, 8}, "documents[0] is 2", ", expected 0");
}

// The functions on tensors pass every option on to both launches.
TEST(DocumentAttention, gradients_of_tensors_are_those_of_the_launch) {
  const auto device = open_device(test_device());
  const Options s{DType::f32, 2, 1, 8, 9, 4};
  Attended run(*device, s, 40);
  const Tensor documents = Tensor::from_host(*device, {3}, std::vector<int32_t>{0, 13, 40});
  run.compute(device->stream(), s, documents.view());
  const AttentionOptions options{.window = s.window, .soft_cap = s.soft_cap, .documents = documents};
  const Tensor q = run.q.set_requires_grad(), k = run.k.set_requires_grad(), v = run.v.set_requires_grad();
  const Tensor o = causal_attention(q, k, v, options);
  EXPECT_EQ(bytes(o.detach()), bytes(run.o));
  backward(o, run.dout);
  EXPECT_EQ(bytes(q.grad()), bytes(run.dq));
  EXPECT_EQ(bytes(k.grad()), bytes(run.dk));
  EXPECT_EQ(bytes(v.grad()), bytes(run.dv));

  Tensor qkv = Tensor::empty(*device, {1, 40, 4, 8});
  copy(run.q.detach(), qkv.part(2, 0, 2));
  copy(run.k.detach(), qkv.part(2, 2, 3));
  copy(run.v.detach(), qkv.part(2, 3, 4));
  qkv.set_requires_grad();
  const Tensor packed = packed_attention(qkv, 1, options);
  EXPECT_EQ(bytes(packed.detach()), bytes(run.o));
  backward(packed, run.dout);
  EXPECT_EQ(bytes(qkv.grad().part(2, 0, 2)), bytes(run.dq));
  EXPECT_EQ(bytes(qkv.grad().part(2, 2, 3)), bytes(run.dk));
  EXPECT_EQ(bytes(qkv.grad().part(2, 3, 4)), bytes(run.dv));
}

}  // namespace
}  // namespace weft
