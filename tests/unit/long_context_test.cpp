// Prompts of 100 000 tokens in chunks: the logits after the last token equal those of transformers and have the same bits for all chunk
// sizes.
#include <gtest/gtest.h>

#include "tests/unit/golden_model.h"
#include "tests/unit/test_device.h"

namespace weft {
namespace {

constexpr int64_t kTokens = 100000;

std::vector<float> last_logits(const Model& model, int64_t chunk) {
  KvCache cache = model.make_cache(1, kTokens);
  Tensor logits;
  for (int64_t first = 0; first < kTokens; first += chunk) {
    std::vector<int32_t> ids;
    for (int64_t i = first; i < std::min(kTokens, first + chunk); ++i) ids.push_back(int32_t((uint32_t(i) * 2654435761u >> 16) % 61));
    logits = model.last_logits(Tensor::from_host(model.device(), {1, int64_t(ids.size())}, ids), cache);
  }
  return logits.to_host<float>();
}

TEST(LongContext, prompt_in_chunks) {
  const auto device = open_device(test_device());
  const std::string folder = WEFT_GOLDEN_LONG_CONTEXT;
  const auto model = load_model(folder, *device);
  const SafeTensors expected(folder + "/expected.safetensors");
  const std::vector<float> logits = last_logits(*model, 4096);
  EXPECT_LE(golden::distance(logits, golden::values<float>(expected.at("logits"))), 1e-4);
  EXPECT_EQ(logits, last_logits(*model, 7001));
}

}  // namespace
}  // namespace weft
