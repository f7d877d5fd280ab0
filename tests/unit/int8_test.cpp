// Linear layers in int8: their values and their limits. `weft check --one-order` compares the paths of such models.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "tests/unit/test_device.h"
#include "weft/backends/open.h"
#include "weft/generate/score.h"
#include "weft/models/load.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

ModelConfig small(Architecture architecture, bool tied) {
  const bool gpt2 = architecture == Architecture::gpt2;
  ModelConfig c = preset(gpt2 ? "shakespeare-char" : "llama-tiny");
  c.hidden_size = 64;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = gpt2 ? 4 : 2;
  c.head_dim = 16;
  c.intermediate_size = 96;
  c.vocab_size = 160;
  c.max_positions = 160;
  c.tie_embeddings = tied;
  c.initializer_range = 0.2;
  return c;
}

bool has_kernel() { return !test_device().starts_with("metal"); }

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Int8, NumbersAreTheNearest) {
  const auto device = open_device(test_device());
  constexpr int64_t kN = 5, kK = 75;
  std::vector<float> values(kN * kK);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i / kK == 3 ? 0.0f : std::sin(float(i * i)) * float(1 + i / kK);
  const Int8Matrix m = to_int8(Tensor::from_host(*device, {kN, kK}, values));
  const NoGrad no_grad;
  const auto numbers = contiguous(m.numbers).to_host<uint8_t>();
  const auto scales = contiguous(m.scales).to_host<f16>();
  EXPECT_EQ(m.scales.shape(), (Shape{kN, 3}));
  for (int64_t n = 0; n < kN; ++n)
    for (int64_t k = 0; k < kK; ++k) {
      const double scale = double(float(scales[size_t(n * 3 + k / kInt8Group)])), x = int8_t(numbers[size_t(n * kK + k)]) * scale;
      EXPECT_LE(std::abs(x - double(values[size_t(n * kK + k)])), 0.51 * scale + 127 * scale * 0x1p-11) << n << ", " << k;
    }
}

// A NaN or an infinity among the values does not become a number: the outputs that depend on it are NaN, the others are not.
TEST(Int8, KeepsWhatIsNoNumber) {
  if (!has_kernel()) GTEST_SKIP() << "Metal has no int8 kernel";
  const auto device = open_device(test_device());
  constexpr int64_t kN = 20, kK = 75;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const float value : {NAN, HUGE_VALF})
      for (const int64_t rows : {1, 3, 40}) {
        std::vector<float> values(kN * kK, 1);
        values[7 * kK + 70] = values[11 * kK] = value;
        const Int8Matrix m = to_int8(Tensor::from_host(*device, {kN, kK}, values));
        const Tensor x = cast(Tensor::from_host(*device, {rows, kK}, std::vector<float>(size_t(rows * kK), 1)), dtype);
        const NoGrad no_grad;
        const auto y = cast(matmul(x, m.numbers, {.transpose_b = true, .scales = m.scales}), DType::f32).to_host<float>();
        for (int64_t i = 0; i < rows * kN; ++i)
          EXPECT_EQ(std::isnan(y[size_t(i)]), i % kN == 7 || i % kN == 11) << dtype << ", " << rows << " rows, " << value << ", " << i;
      }
}

// A GGUF file's Q8_0 weights are taken as they are: the model is the one of the same weights in f32, to the last bit.
TEST(Int8, TakesQ80AsItIs) {
  if (!has_kernel()) GTEST_SKIP() << "Metal has no int8 kernel";
  const auto device = open_device(test_device(), {.threads = 2});
  const fs::path path = fs::path(testing::TempDir()) / ("weft_int8_" + std::to_string(::getpid()) + ".gguf");
  for (bool tied : {false, true}) {
    const auto model = make_model(small(Architecture::llama, tied), *device, 3, {.dtype = DType::f32});
    export_gguf(*model, path.string(), {.dtype = "q8_0"});
    const auto plain = load_model(path.string(), *device, {.dtype = DType::f32}),
               int8 = load_model(path.string(), *device, {.dtype = DType::f32, .int8 = true});
    const Tensor ids = Tensor::from_host(*device, {1, 7}, std::vector<int32_t>{5, 3, 99, 4, 0, 159, 7});
    const NoGrad no_grad;
    EXPECT_EQ(int8->logits(ids).to_host<float>(), plain->logits(ids).to_host<float>()) << (tied ? "tied" : "untied");
  }
  fs::remove(path);
}

// The loss is near that of the weights it was made from, and not the same.
TEST(Int8, IsNearTheModel) {
  if (!has_kernel()) GTEST_SKIP() << "Metal has no int8 kernel";
  const auto device = open_device(test_device());
  const ModelConfig config = small(Architecture::llama, true);
  const auto plain = make_model(config, *device, 3), int8 = make_model(config, *device, 3, {.int8 = true});
  std::vector<int32_t> ids(100);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = int32_t(i * i % 160);
  const std::vector<ScoredPair> pairs = {{{1, 2, 3}, ids}};
  const auto expected = score(*plain, pairs)[0], got = score(*int8, pairs)[0];
  double difference = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) difference += std::abs(double(got[i] - expected[i])), size += std::abs(double(expected[i]));
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.05 * size);
}

TEST(Int8, IsForInference) {
  const auto device = open_device(test_device());
  const ModelConfig config = small(Architecture::llama, true);
  EXPECT_EQ(message_of([&] { make_model(config, *device, 3, {.trainable = true, .int8 = true}); }),
            "int8: int8 weights are for inference: training needs f32 or bf16 weights");
}

}  // namespace
}  // namespace weft
