// The log-probability is one function of a row of logits: the same bits with and without gradients of any dtype, in place, in rows of any
// alignment, alone and among others, and from its terms on the host.
#include <gtest/gtest.h>

#include <bit>

#include "tests/unit/test_device.h"
#include "weft/base/philox.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/cross_entropy/cross_entropy.h"

namespace weft {
namespace {

constexpr int64_t kRows = 5;
const std::vector<int64_t> kVocabularies = {1, 7, 64, 257, 1030, 5003, 40001};

struct Case {
  std::shared_ptr<Device> device = open_device(test_device());
  std::vector<float> logits;
  std::vector<int32_t> targets;
  int64_t V;

  explicit Case(int64_t vocabulary) : V(vocabulary) {
    PhiloxStream random(7, uint32_t(V));
    for (int64_t i = 0; i < kRows * V; ++i) logits.push_back(float(3 * random.normal()));
    for (int64_t r = 0; r < kRows; ++r) targets.push_back(int32_t(r * 7919 % V));
  }
  Tensor ids() const { return Tensor::from_host(*device, {kRows}, targets); }
  // The logits in rows with `gap` elements between them.
  Tensor rows(int64_t gap = 0) const {
    const Tensor all = Tensor::empty(*device, {kRows, V + gap}), part = all.part(1, 0, V);
    copy(Tensor::from_host(*device, {kRows, V}, logits), part);
    return part;
  }
};

std::vector<uint32_t> bits(const Tensor& x) {
  std::vector<uint32_t> result;
  for (float v : x.to_host<float>()) result.push_back(std::bit_cast<uint32_t>(v));
  return result;
}

// The losses of rows of `logits` with a gradient of a dtype, or none.
std::vector<uint32_t> losses(const Case& c, const Tensor& logits, const Tensor& dlogits) {
  const Tensor loss = Tensor::empty(*c.device, {}), each = Tensor::empty(*c.device, {kRows}), ids = c.ids();
  cross_entropy(
      c.device->stream(),
      {.logits = logits.view(), .targets = ids.view(), .dlogits = dlogits.mut_view(), .loss = loss.mut_view(), .losses = each.mut_view()});
  return bits(each);
}

TEST(LogProbability, DoesNotDependOnTheGradient) {
  for (int64_t V : kVocabularies) {
    const Case c(V);
    const auto plain = losses(c, c.rows(), Tensor());
    const Tensor in_place = c.rows();
    EXPECT_EQ(losses(c, c.rows(), Tensor::empty(*c.device, {kRows, V})), plain) << V;
    EXPECT_EQ(losses(c, c.rows(), Tensor::empty(*c.device, {kRows, V}, DType::bf16)), plain) << V;
    EXPECT_EQ(losses(c, in_place, in_place), plain) << V;
  }
}

TEST(LogProbability, DoesNotDependOnTheAlignmentOfRows) {
  for (int64_t V : kVocabularies) {
    const Case c(V);
    const auto plain = losses(c, c.rows(), Tensor());
    for (int64_t gap : {1, 3, 8}) {
      EXPECT_EQ(losses(c, c.rows(gap), Tensor()), plain) << V << " " << gap;
      EXPECT_EQ(losses(c, c.rows(gap), Tensor::empty(*c.device, {kRows, V}, DType::bf16)), plain) << V << " " << gap;
    }
  }
}

TEST(LogProbability, DoesNotDependOnOtherRows) {
  for (int64_t V : kVocabularies) {
    const Case c(V);
    const auto plain = losses(c, c.rows(), Tensor());
    const Tensor all = c.rows(), ids = c.ids();
    for (int64_t r = 0; r < kRows; ++r) {
      const Tensor each = Tensor::empty(*c.device, {1});
      cross_entropy(all.part(0, r, r + 1), ids.part(0, r, r + 1), {.losses = each});
      EXPECT_EQ(bits(each)[0], plain[size_t(r)]) << V << " " << r;
    }
  }
}

TEST(LogProbability, FollowsFromItsTermsOnTheHost) {
  for (int64_t V : kVocabularies) {
    const Case c(V);
    const auto plain = losses(c, c.rows(), Tensor());
    const LogProbabilityTerms terms = log_probability_terms(c.rows());
    const auto maxima = terms.maxima.to_host<float>(), log_sums = terms.log_sums.to_host<float>();
    for (size_t r = 0; r < size_t(kRows); ++r) {
      const float logit = c.logits[r * size_t(V) + size_t(c.targets[r])];
      EXPECT_EQ(std::bit_cast<uint32_t>(-log_probability(logit, maxima[r], log_sums[r])), plain[r]) << V << " " << r;
    }
  }
}

}  // namespace
}  // namespace weft
