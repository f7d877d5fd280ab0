// Packed documents on Metal: o, lse, rotated vectors and gradients of each document have the bytes of the document alone, kernels with a
// wrong document edge or position are found by that, and wrong cumulative lengths or positions are a fault that leaves the results alone.
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

#include "tests/unit/attention_launch.h"
#include "tests/unit/observed.h"
#include "weft/backends/open.h"
#include "weft/base/philox.h"
#include "weft/ops/ops.h"
#include "weft/spec/runner.h"
#include "weft/tensor/node.h"
#include "weft/tile/metal/runtime.h"
#include "weft/tile/metal/source.h"

namespace weft {
namespace {

struct Change {
  const char *file, *from, *to;
};
struct Sizes {
  int64_t H, Hkv, D;
};
struct Options {
  int64_t window = 0;
  float soft_cap = 0;
};

// Operands and results of a forward and a backward pass over the tokens [first, last), or over all of them as documents.
struct Pass {
  Tensor q, k, v, dout, o, lse, dq, dk, dv;

  Pass tokens(int64_t first, int64_t last) const {
    const auto cut = [&](const Tensor& x) { return slice(x, 1, first, last); };
    return {cut(q), cut(k), cut(v), cut(dout), cut(o), contiguous(slice(lse, 2, first, last)), cut(dq), cut(dk), cut(dv)};
  }
  std::vector<Tensor> results() const { return {o, lse, dq, dk, dv}; }
};

class MetalDocuments : public testing::Test {
 protected:
  const NoGrad no_grad;
  std::shared_ptr<Device> device = open_device("metal-sim");

  Tensor normal(PhiloxStream& random, const Shape& shape, DType dtype) {
    std::vector<float> values(size_t(shape.numel()));
    for (float& v : values) v = float(random.normal());
    return cast(Tensor::from_host(*device, shape, values), dtype);
  }
  // Results start as 7: what a kernel does not write is different from what it should be.
  Pass draw(int64_t T, const Sizes& s, DType dtype) {
    PhiloxStream random(23);
    const Shape queries{1, T, s.H, s.D}, keys{1, T, s.Hkv, s.D};
    const auto result = [&](const Shape& shape, DType type) { return full(*device, shape, 7, type); };
    return {normal(random, queries, dtype), normal(random, keys, dtype), normal(random, keys, dtype),
            normal(random, queries, dtype), result(queries, dtype),      result({1, s.H, T}, DType::f32),
            result(queries, dtype),         result(keys, dtype),         result(keys, dtype)};
  }
  Tensor lengths(const std::vector<int32_t>& values) { return Tensor::from_host(*device, {int64_t(values.size())}, values); }

  void forward(const Pass& p, const Options& options, const Tensor& documents = {}) {
    launch_forward(device->stream(), p, {0.3f, options.window, options.soft_cap, documents.view()});
  }
  void backward(const Pass& p, const Options& options, const Tensor& documents = {}) {
    launch_backward(device->stream(), p, {0.3f, options.window, options.soft_cap, documents.view()});
  }

  static std::vector<float> floats(const Tensor& x) { return cast(contiguous(x), DType::f32).to_host<float>(); }

  // The first result of the first document that differs from the document alone; empty if none does.
  std::string difference(const std::vector<int32_t>& ends, const Sizes& s, DType dtype, const Options& options) {
    const Pass all = draw(ends.back(), s, dtype), again = draw(ends.back(), s, dtype);
    forward(all, options, lengths(ends));
    backward(all, options, lengths(ends));
    for (size_t d = 1; d < ends.size(); ++d) {
      if (ends[d] == ends[d - 1]) continue;
      const Pass packed = all.tokens(ends[d - 1], ends[d]), alone = again.tokens(ends[d - 1], ends[d]);
      forward(alone, options);
      backward(alone, options);
      for (size_t i = 0; i < alone.results().size(); ++i) {
        const std::vector<float> x = floats(packed.results()[i]), y = floats(alone.results()[i]);
        if (std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0)
          return join(std::array{"o", "lse", "dq", "dk", "dv"}[i], " of document ", d - 1, " differs");
      }
    }
    return "";
  }

  // Kernels of the padded head dim 64 in f32 alone, which compile sooner, with a change.
  void use_changed(const Change& change) {
    metal::of(device->stream()).pipelines().use_sources([change](std::string_view file) {
      std::string text = metal::source(file);
      if (file != change.file) return text;
      const size_t at = text.find(change.from);
      check(at != std::string::npos, change.file, "'", change.from, "' is no longer in it; change the mutant to match");
      text.replace(at, std::string(change.from).size(), change.to);
      std::istringstream lines(text);
      std::string kept;
      for (std::string line; std::getline(lines, line);) {
        const bool other =
            line.starts_with("template [[host_name(") && line.find("f32\"") == line.npos && line.find("f32_64\"") == line.npos;
        kept += (other ? "" : line) + '\n';
      }
      return kept;
    });
  }
};

// One token, one past a tile, none, and more than a segment of keys.
const std::vector<int32_t> kEnds{0, 1, 66, 66, 97, 360, 363, 363};

TEST_F(MetalDocuments, have_the_bytes_of_each_document_alone) {
  for (const Sizes& s : {Sizes{2, 1, 12}, {1, 1, 68}, {1, 1, 136}})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Options& options : {Options{}, {.window = 40, .soft_cap = 2}})
        EXPECT_EQ(difference(kEnds, s, dtype, options), "") << "heads of " << s.D << ", " << dtype << ", window " << options.window;
}

TEST_F(MetalDocuments, with_a_wrong_edge_are_found) {
  constexpr const char *kForward = "weft/ops/causal_attention/metal/forward.metal",
                       *kBackward = "weft/ops/causal_attention/metal/backward.metal";
  const Change mutants[] = {
      {kForward, "t0 = tile.first,", "t0 = tile.first / 8 * 8,"},  // tiles from a multiple of eight on, not the document's first token
      {kForward, "(documents, middle, tile) <= slot", "(documents, middle, tile) < slot"},  // a document's first tile is the one before's
      {kBackward, "n0 = tile.at, tokens = tile.tokens;", "n0 = tile.at, tokens = p.T - t0;"},  // queries of later documents
  };
  for (const Change& mutant : mutants) {
    device = open_device("metal-sim");
    use_changed(mutant);
    EXPECT_NE(difference({0, 1, 66, 90}, {1, 1, 12}, DType::f32, {}), "") << mutant.to;
  }
}

class MetalPositions : public MetalDocuments {
 protected:
  // Turns x [1, T, H, D] forward or back, tokens from position 0 on or at `positions`.
  Tensor turned(const Tensor& x, RopePairs pairs, bool inverse, const Tensor& positions = {}) {
    const RopeTable table = rope_table(*device, 70, (x.shape()[3] - 1) / 2 * 2, 100);
    const Tensor y = full(*device, x.shape(), 7, x.dtype());
    rope(device->stream(), {.x = x.view(),
                            .cos = table.cos.view(),
                            .sin = table.sin.view(),
                            .start = {},
                            .y = y.mut_view(),
                            .positions = positions.view(),
                            .pairs = pairs,
                            .inverse = inverse});
    return y;
  }
  // The first document that differs from the document alone; empty if none does.
  std::string difference_of_rope(int64_t D, DType dtype, RopePairs pairs, bool inverse) {
    const std::vector<int32_t> ends{0, 1, 66, 66, 97, 120};
    PhiloxStream random(29);
    const Tensor x = normal(random, {1, ends.back(), 3, D}, dtype);
    const Tensor packed = turned(x, pairs, inverse, document_positions(lengths(ends), ends.back()));
    for (size_t d = 1; d < ends.size(); ++d) {
      if (ends[d] == ends[d - 1]) continue;
      const std::vector<float> a = floats(slice(packed, 1, ends[d - 1], ends[d])),
                               b = floats(turned(slice(x, 1, ends[d - 1], ends[d]), pairs, inverse));
      if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0) return join("document ", d - 1, " differs");
    }
    return "";
  }
  // The cases of rope's spec with positions that fail.
  int failing_cases() {
    spec::Registry registry;
    spec::add_all_specs(registry);
    int failing = 0;
    for (const spec::Case& c : registry.cases()) {
      if (c.op != "rope" || c.dtype != DType::f32 || c.name.find("positions") == c.name.npos) continue;
      const spec::Outcome outcome = spec::run_case(c, device, {});
      EXPECT_NE(outcome.status, spec::Status::skipped) << outcome.message;
      EXPECT_EQ(outcome.message.find("does not compile"), std::string::npos) << outcome.message;
      failing += outcome.status == spec::Status::failed;
    }
    return failing;
  }
};

// Whole vectors and others.
TEST_F(MetalPositions, turn_tokens_to_the_bytes_of_each_document_alone) {
  for (const int64_t D : {16, 33})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const RopePairs pairs : {RopePairs::half_split, RopePairs::interleaved})
        for (const bool inverse : {false, true})
          EXPECT_EQ(difference_of_rope(D, dtype, pairs, inverse), "") << D << " " << dtype << " inverse " << inverse;
}

TEST_F(MetalPositions, that_are_ignored_are_found_by_the_spec) {
  constexpr const char* kRope = "weft/ops/rope/metal.metal";
  device = open_device("metal-sim", {.checked = true});
  EXPECT_EQ(failing_cases(), 0);
  const Change mutants[] = {
      {kRope, "const long position = positions_in[t];", "const long position = t % p.positions;"},          // tokens follow each other
      {kRope, "const long position = positions_in[t];", "const long position = positions_in[t / 4 * 4];"},  // of another token
      {kRope, "const long position = positions_in[t];", "const long position = positions_in[t] & 4095;"},   // 12 bits
  };
  for (const Change& mutant : mutants) {
    device = open_device("metal-sim", {.checked = true});
    use_changed(mutant);
    EXPECT_GT(failing_cases(), 0) << mutant.to;
  }
  device = open_device("metal-sim");
  use_changed(mutants[0]);
  EXPECT_EQ(difference_of_rope(16, DType::f32, RopePairs::half_split, true), "document 1 differs");
}

TEST_F(MetalPositions, outside_the_table_are_a_fault) {
  PhiloxStream random(31);
  const Tensor x = normal(random, {1, 3, 2, 8}, DType::f32);
  for (const int32_t wrong : {70, -1, 2147483647}) {
    Tensor y;
    const std::string message = message_of([&] {
      y = turned(x, RopePairs::half_split, false, lengths({0, wrong, 69}));
      device->stream().synchronize();
    });
    EXPECT_NE(message.find(join("position ", wrong, " of token 1 is out of range [0, 70)")), std::string::npos) << message;
    EXPECT_EQ(floats(slice(y, 1, 1, 2)), std::vector<float>(16, 7));
  }
  EXPECT_EQ(difference_of_rope(16, DType::f32, RopePairs::half_split, false), "");  // later launches are not affected
}

TEST_F(MetalDocuments, that_are_not_cumulative_are_a_fault) {
  const Pass p = draw(70, {1, 1, 8}, DType::f32);
  struct Wrong {
    std::vector<int32_t> ends;
    const char* message;
  };
  const Wrong wrongs[] = {{{0}, "documents[0] is 0"},
                          {{1, 70}, "documents[0] is 1"},
                          {{-5, 70}, "documents[0] is -5"},
                          {{0, 69}, "documents[1] is 69"},
                          {{0, 2000000000, 70}, "documents[1] is 2000000000"},
                          {{0, 40, 30, 70}, "documents[2] is 30"},
                          {{0, -2147483647, 30, 71}, "documents[1] is -2147483647"}};
  for (const Wrong& wrong : wrongs) {
    const Tensor documents = lengths(wrong.ends);
    const std::string expected = join(wrong.message, ", expected lengths that ascend from 0 to 70");
    const auto run = [&](const auto& pass) {
      return message_of([&] {
        pass();
        device->stream().synchronize();
      });
    };
    EXPECT_NE(run([&] { forward(p, {}, documents); }).find(expected), std::string::npos) << expected;
    EXPECT_NE(run([&] { backward(p, {}, documents); }).find(expected), std::string::npos) << expected;
  }
  for (const Tensor& result : p.results()) EXPECT_EQ(floats(result), std::vector<float>(size_t(result.numel()), 7));
  EXPECT_EQ(difference({0, 40, 70}, {1, 1, 8}, DType::f32, {}), "");  // later launches are not affected
}

}  // namespace
}  // namespace weft
