// The kernels that this project started from (tests/metal/seeds), unchanged. Two of them race, which the checked simulator must report; all
// others agree with float64 and have no findings.
#include "tests/unit/metal_sim_cases.h"

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

namespace weft::metal {
namespace {

using Doubles = std::vector<double>;

std::string seed(const std::string& name) {
  std::ifstream in(std::string(WEFT_METAL_SEEDS) + "/" + name + ".metal");
  EXPECT_TRUE(in) << name;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<float> noise(size_t count, unsigned salt) {
  std::mt19937 bits(salt);
  std::vector<float> v(count);
  for (float& x : v) x = float(int(bits() % 2001) - 1000) / 1000.0f;
  return v;
}

void expect_near(const std::vector<float>& got, const Doubles& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound * (1 + std::abs(want[i]))) << i;
}

uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}

class MetalSeeds : public testing::TestWithParam<SimMode> {
 protected:
  void launch(const std::string& file, const Job& r) { run(*gpu_, seed(file), r, file + ".metal"); }
  // A kernel that races: the checked mode reports it; in other modes it runs and may be wrong.
  void launch_racing(const std::string& file, const Job& r) {
    const std::string error = error_of([&] { launch(file, r); });
    if (GetParam() == SimMode::checked) {
      EXPECT_NE(error.find("race on 'shared'"), std::string::npos) << error;
      EXPECT_NE(error.find(file + ".metal:"), std::string::npos) << error;
    } else {
      EXPECT_EQ(error, "");
    }
  }
  std::unique_ptr<Gpu> gpu_ = open_simulator(GetParam());
};

TEST_P(MetalSeeds, Transpose) {
  const size_t rows = 13, columns = 70;
  const auto input = noise(rows * columns, 1);
  Data<float> x(*gpu_, input), y(*gpu_, std::vector<float>(rows * columns));
  Data<uint32_t> params(*gpu_, {uint32_t(rows), uint32_t(columns)});
  launch("transpose_2d", {"transpose_2d", {x.at(0), y.at(1), params.at(2)}, {3, int64_t(rows), 1}, 32});
  const auto got = y.values();
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) ASSERT_EQ(got[c * rows + r], input[r * columns + c]);
  }
}

TEST_P(MetalSeeds, SoftmaxBackward) {
  const size_t rows = 5, n = 301;
  const auto s = noise(rows * n, 2), g = noise(rows * n, 3);
  Doubles want(rows * n);
  for (size_t r = 0; r < rows; ++r) {
    double dot = 0;
    for (size_t i = 0; i < n; ++i) dot += double(s[r * n + i]) * g[r * n + i];
    for (size_t i = 0; i < n; ++i) want[r * n + i] = s[r * n + i] * (g[r * n + i] - dot);
  }
  Data<float> a(*gpu_, s), b(*gpu_, g), y(*gpu_, std::vector<float>(rows * n));
  Data<uint32_t> params(*gpu_, {uint32_t(rows), uint32_t(n)});
  launch("softmax_backward", {"softmax_backward", {a.at(0), b.at(1), y.at(2), params.at(3)}, {int64_t(rows), 1, 1}, 64});
  expect_near(y.values(), want, 1e-4);
}

TEST_P(MetalSeeds, EmbeddingBackward) {
  const size_t tokens = 50, dim = 9, vocabulary = 11;
  const auto g = noise(tokens * dim, 4);
  std::vector<uint32_t> ids(tokens);
  Doubles want(vocabulary * dim);
  for (size_t t = 0; t < tokens; ++t) {
    ids[t] = uint32_t(t * 7 % vocabulary);
    for (size_t d = 0; d < dim; ++d) want[ids[t] * dim + d] += g[t * dim + d];
  }
  Data<float> grad(*gpu_, g), weight(*gpu_, std::vector<float>(vocabulary * dim));
  Data<uint32_t> id(*gpu_, ids), params(*gpu_, {uint32_t(vocabulary), uint32_t(tokens), uint32_t(dim)});
  launch("embedding_backward", {"embedding_backward", {grad.at(0), id.at(1), weight.at(2), params.at(3)}, {2, 1, 1}, 32});
  expect_near(weight.values(), want, 1e-5);
}

TEST_P(MetalSeeds, RmsNormBackwardRaces) {
  const size_t rows = 3, dim = 100;
  Data<float> x(*gpu_, noise(rows * dim, 5)), w(*gpu_, noise(dim, 6)), g(*gpu_, noise(rows * dim, 7)),
      dx(*gpu_, std::vector<float>(rows * dim)), dw(*gpu_, std::vector<float>(dim));
  Data<uint32_t> params(*gpu_, {uint32_t(rows), uint32_t(dim), bits_of(1e-5f)});
  launch_racing("rms_norm_backward",
                {"rms_norm_backward", {x.at(0), w.at(1), g.at(2), dx.at(3), dw.at(4), params.at(5)}, {int64_t(rows), 1, 1}, 64});
}

TEST_P(MetalSeeds, CrossEntropyRaces) {
  const size_t rows = 3, vocabulary = 100;
  Data<float> logits(*gpu_, noise(rows * vocabulary, 8)), grad(*gpu_, std::vector<float>(rows * vocabulary)),
      loss(*gpu_, std::vector<float>(1));
  Data<uint32_t> targets(*gpu_, {5, 99, 0}), params(*gpu_, {uint32_t(rows), uint32_t(vocabulary), 1000, uint32_t(rows)});
  launch_racing("cross_entropy",
                {"cross_entropy_fwd_bwd", {logits.at(0), targets.at(1), grad.at(2), loss.at(3), params.at(4)}, {int64_t(rows), 1, 1}, 64});
}

TEST_P(MetalSeeds, CausalAttentionBackward) {
  const size_t T = 17, H = 4, G = 2, D = 8;
  const auto q = noise(T * H * D, 9), k = noise(T * G * D, 10), v = noise(T * G * D, 11), g = noise(T * H * D, 12);
  Doubles dq(T * H * D), dk(T * G * D), dv(T * G * D);
  const double scale = 1 / std::sqrt(double(D));
  for (size_t h = 0; h < H; ++h) {
    const size_t kv = h / (H / G);
    for (size_t t = 0; t < T; ++t) {
      Doubles p(t + 1), dp(t + 1);
      double sum = 0, dot = 0;
      for (size_t j = 0; j <= t; ++j) {
        double score = 0;
        for (size_t d = 0; d < D; ++d) {
          score += double(q[(t * H + h) * D + d]) * k[(j * G + kv) * D + d];
          dp[j] += double(g[(t * H + h) * D + d]) * v[(j * G + kv) * D + d];
        }
        sum += p[j] = std::exp(score * scale);
      }
      for (size_t j = 0; j <= t; ++j) dot += (p[j] /= sum) * dp[j];
      for (size_t j = 0; j <= t; ++j) {
        const double ds = p[j] * (dp[j] - dot) * scale;
        for (size_t d = 0; d < D; ++d) {
          dq[(t * H + h) * D + d] += ds * k[(j * G + kv) * D + d];
          dk[(j * G + kv) * D + d] += ds * q[(t * H + h) * D + d];
          dv[(j * G + kv) * D + d] += p[j] * g[(t * H + h) * D + d];
        }
      }
    }
  }
  Data<float> a(*gpu_, g), b(*gpu_, q), c(*gpu_, k), d(*gpu_, v), x(*gpu_, std::vector<float>(dq.size())),
      y(*gpu_, std::vector<float>(dk.size())), z(*gpu_, std::vector<float>(dv.size()));
  Data<uint32_t> params(*gpu_, {uint32_t(T), uint32_t(H), uint32_t(G), uint32_t(D)});
  launch("causal_attention_backward", {"causal_attention_backward",
                                       {a.at(0), b.at(1), c.at(2), d.at(3), x.at(4), y.at(5), z.at(6), params.at(7)},
                                       {int64_t(T), int64_t(H), 1},
                                       32});
  expect_near(x.values(), dq, 1e-5);
  expect_near(y.values(), dk, 1e-5);
  expect_near(z.values(), dv, 1e-5);
}

TEST_P(MetalSeeds, RmsNormInThreeKernels) {
  const size_t rows = 6, dim = 77;
  const float eps = 1e-5f;
  const auto x = noise(rows * dim, 13), w = noise(dim, 14), g = noise(rows * dim, 15);
  Doubles r(rows), dx(rows * dim), dw(dim);
  for (size_t b = 0; b < rows; ++b) {
    double squares = 0, s = 0;
    for (size_t i = 0; i < dim; ++i) {
      squares += double(x[b * dim + i]) * x[b * dim + i];
      s += double(g[b * dim + i]) * x[b * dim + i] * w[i];
    }
    r[b] = 1 / std::sqrt(squares / double(dim) + eps);
    for (size_t i = 0; i < dim; ++i) {
      dx[b * dim + i] = r[b] * (double(g[b * dim + i]) * w[i] - x[b * dim + i] * s * r[b] * r[b] / double(dim));
      dw[i] += double(g[b * dim + i]) * x[b * dim + i] * r[b];
    }
  }
  Data<float> X(*gpu_, x), W(*gpu_, w), Y(*gpu_, g), R(*gpu_, std::vector<float>(rows)), DX(*gpu_, std::vector<float>(rows * dim)),
      DW(*gpu_, std::vector<float>(dim)), first(*gpu_, {eps, float(dim)}), second(*gpu_, {float(dim), float(rows)});
  const std::string file = "rms_norm_three_kernels";
  launch(file, {"rms_norm_compute_rms_inv_f32", {X.at(0), R.at(1), first.at(2)}, {int64_t(rows), 1, 1}, 32, 128});
  launch(file, {"rms_norm_backward_dx_f32", {X.at(0), W.at(1), Y.at(2), R.at(3), DX.at(4), second.at(5)}, {int64_t(rows), 1, 1}, 64, 256});
  launch(file, {"rms_norm_backward_dw_f32", {X.at(0), Y.at(1), R.at(2), DW.at(3), second.at(4)}, {int64_t(dim), 1, 1}, 32, 128});
  expect_near(R.values(), r, 1e-5);
  expect_near(DX.values(), dx, 1e-5);
  expect_near(DW.values(), dw, 1e-5);
}

TEST_P(MetalSeeds, FlashAttentionComputeD) {
  const size_t heads = 3, length = 5, dim = 100;
  const auto whole = noise(2 * heads * length * dim, 16);
  std::vector<uint16_t> o(heads * length * dim), g(o.size());
  const auto value = [](uint16_t bits) {
    const uint32_t wide = uint32_t(bits) << 16;
    float x;
    std::memcpy(&x, &wide, 4);
    return double(x);
  };
  for (size_t i = 0; i < o.size(); ++i) o[i] = uint16_t(bits_of(whole[i]) >> 16), g[i] = uint16_t(bits_of(whole[o.size() + i]) >> 16);
  Doubles want(heads * length);
  for (size_t row = 0; row < want.size(); ++row) {
    for (size_t i = 0; i < dim; ++i) want[row] += value(o[row * dim + i]) * value(g[row * dim + i]);
  }
  Data<uint16_t> O(*gpu_, o), G(*gpu_, g);
  Data<float> D(*gpu_, std::vector<float>(want.size()));
  Data<uint32_t> params(*gpu_, {1, uint32_t(heads), uint32_t(length), uint32_t(dim)});
  launch("flash_attention_compute_d",
         {"flash_attn_train_bwd_compute_d_bf16", {O.at(0), G.at(1), D.at(2), params.at(3)}, {int64_t(length), 1, int64_t(heads)}, 128});
  expect_near(D.values(), want, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Orders, MetalSeeds, testing::Values(SimMode::forward, SimMode::random, SimMode::flush, SimMode::checked),
                         mode_name);

}  // namespace
}  // namespace weft::metal
