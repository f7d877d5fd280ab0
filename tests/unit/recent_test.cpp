#include "weft/base/recent.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace weft {
namespace {

TEST(Recent, keeps_the_most_recently_used) {
  Recent<int, std::string> recent;
  for (int i = 0; i < 10; ++i) recent.add(i, std::to_string(i));
  ASSERT_NE(recent.find(0), nullptr);  // used again
  recent.keep(20);
  EXPECT_EQ(recent.size(), 10u);
  recent.keep(3);
  EXPECT_EQ(recent.size(), 3u);
  for (int kept : {0, 8, 9}) {
    ASSERT_NE(recent.find(kept), nullptr) << kept;
    EXPECT_EQ(*recent.find(kept), std::to_string(kept));
  }
  for (int gone : {1, 7}) EXPECT_EQ(recent.find(gone), nullptr) << gone;
  recent.keep(0);
  EXPECT_EQ(recent.size(), 0u);
}

TEST(Recent, frees_evicted_values) {
  Recent<int, std::shared_ptr<int>> recent;
  const auto first = std::make_shared<int>(1);
  recent.add(1, first);
  recent.add(1, first);  // in its own place
  EXPECT_EQ(first.use_count(), 2);
  recent.add(2, std::make_shared<int>(2));
  recent.keep(1);
  EXPECT_EQ(first.use_count(), 1);
}

}  // namespace
}  // namespace weft
