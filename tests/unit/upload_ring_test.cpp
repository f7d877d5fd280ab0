// The ring for small uploads, on a queue that copies as late as possible.
#include "weft/tile/cuda/upload_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <vector>

namespace weft::cuda {
namespace {

// Delays copies until a later mark is waited for.
class LateQueue {
 public:
  void copy(char* to, const char* from, int64_t bytes) { work_.push_back({to, from, bytes, -1}); }
  void mark(int slot) { work_.push_back({nullptr, nullptr, 0, slot}); }
  void wait(int slot) {
    waits.push_back(slot);
    while (run_one() != slot) ASSERT_FALSE(work_.empty()) << "slot " << slot << " was never marked";
  }
  void finish() {
    while (!work_.empty()) run_one();
  }
  size_t left() const { return work_.size(); }

  std::vector<int> waits;

 private:
  struct Work {
    char* to;
    const char* from;
    int64_t bytes;
    int slot;
  };
  int run_one() {
    const Work work = work_.front();
    work_.pop_front();
    if (work.bytes) std::memcpy(work.to, work.from, size_t(work.bytes));
    return work.slot;
  }
  std::deque<Work> work_;
};

using Ring = UploadRing<LateQueue>;

class UploadRings : public testing::Test {
 protected:
  void upload(int64_t at, int64_t bytes) { ring.upload(slots.data(), device.data() + at, host.data() + at, bytes); }
  static std::vector<char> numbers(size_t bytes) {
    std::vector<char> values(bytes);
    for (size_t i = 0; i < bytes; ++i) values[i] = char(i * 31 + i / 251);
    return values;
  }

  const std::vector<char> host = numbers(size_t(3 * Ring::kBytes));
  std::vector<char> slots = std::vector<char>(size_t(Ring::kBytes)), device = std::vector<char>(host.size());
  LateQueue queue;
  Ring ring{queue};
};

TEST_F(UploadRings, uploads_up_to_the_slot_count_do_not_wait) {
  for (int64_t i = 0; i < Ring::kSlots; ++i) upload(i * 8, 8);
  EXPECT_EQ(queue.waits, std::vector<int>());
  queue.finish();
  EXPECT_TRUE(std::equal(device.begin(), device.begin() + Ring::kSlots * 8, host.begin()));
}

TEST_F(UploadRings, next_upload_waits_for_its_slot_only) {
  for (int64_t i = 0; i < Ring::kSlots + 2; ++i) upload(i * 8, 8);
  EXPECT_EQ(queue.waits, (std::vector<int>{0, 1}));
  EXPECT_EQ(queue.left(), size_t(2 * Ring::kSlots));  // a copy and a mark each: all but the first two are still queued
}

// Nothing is overwritten before it is copied, whatever the sizes.
TEST_F(UploadRings, every_byte_arrives) {
  int64_t at = 0;
  for (int64_t i = 0; at < int64_t(host.size()); ++i) {
    const int64_t most = i % 7 == 0   ? Ring::kMostUpload
                         : i % 3 == 0 ? Ring::kSlotBytes + 1
                                      : 4 * (i % 50),
                  bytes = std::min(most, int64_t(host.size()) - at);
    upload(at, bytes);
    at += bytes;
  }
  queue.finish();
  EXPECT_EQ(device, host);
}

TEST_F(UploadRings, empty_upload) {
  upload(0, 0);
  EXPECT_EQ(queue.left(), 0u);
}

}  // namespace
}  // namespace weft::cuda
