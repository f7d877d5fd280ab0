// The greedy ids that a device chooses (weft/ops/sample) equal those of the host's sampler. Runs with WEFT_TEST_DEVICE=cuda.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/test_device.h"
#include "weft/base/philox.h"
#include "weft/generate/sampler.h"
#include "weft/ops/sample/sample.h"

namespace weft {
namespace {

TEST(Sample, ids_are_those_of_the_host_sampler) {
  const auto device = open_device(test_device());
  if (!device->kernels().sample.supported()) GTEST_SKIP() << device->kernels().sample.reason();
  constexpr int64_t kRows = 2000, kVocabulary = 1021;
  Sampler sampler({});
  for (uint32_t seed = 0; seed < 50; ++seed) {  // 10^5 rows
    std::vector<float> logits(size_t(kRows * kVocabulary));
    for (size_t i = 0; i < logits.size(); ++i) {
      const uint32_t bits = philox({uint32_t(i), seed, 0, 0}, {1, 2})[0];
      logits[i] = seed % 2 == 0 ? float(int32_t(bits)) * 0x1p-31f : float(int32_t(bits % 61) - 30);  // odd seeds: ties in every row
    }
    const std::vector<int32_t> ids = sample(Tensor::from_host(*device, {kRows, kVocabulary}, logits)).to_host<int32_t>();
    for (int64_t r = 0; r < kRows; ++r) {
      const std::span<const float> row(logits.data() + r * kVocabulary, size_t(kVocabulary));
      ASSERT_EQ(ids[size_t(r)], sampler.next(row, {}, {})) << "row " << r << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace weft
