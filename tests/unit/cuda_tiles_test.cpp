// The tiles that attention uses on a GPU, by the shared memory available to a block.
#include <gtest/gtest.h>

#include <type_traits>

#include "tests/unit/observed.h"
#include "weft/ops/causal_attention/cuda/tiles.h"
#include "weft/ops/kv_attention/cuda/tiles.h"

namespace weft::cuda {
namespace {

constexpr int64_t kAda = 101376, kAmpere = 166912, kHopper = 232448;  // shared memory of a block in bytes: sm_86, 89, 120; sm_80; sm_90

template <class List>
int64_t chosen_bytes(int64_t limit) {
  int64_t bytes = -1;
  with_tiles(List(), "test", limit, [&]<class Tiles>() { bytes = Tiles::kBytes; });
  return bytes;
}

template <class Expected, class List>
bool chooses(List list, int64_t limit) {
  bool same = false;
  with_tiles(list, "test", limit, [&]<class Tiles>() { same = std::is_same_v<Tiles, Expected>; });
  return same;
}

template <int kD>
void expect_fit(int64_t limit) {
  SCOPED_TRACE(testing::Message() << "head dim " << kD << ", " << limit << " bytes");
  for (const int64_t bytes : {chosen_bytes<typename ForwardChoice<kD>::List>(limit), chosen_bytes<typename BackwardChoice<kD>::List>(limit),
                              chosen_bytes<typename SimtChoice<kD>::List>(limit), chosen_bytes<typename WeighChoice<kD>::Narrow>(limit),
                              chosen_bytes<typename WeighChoice<kD>::Wide>(limit), int64_t(kScoreBytes<kD>)}) {
    EXPECT_GT(bytes, 0);
    EXPECT_LE(bytes + kStaticShared, limit);
  }
}

TEST(CudaTiles, every_kernel_launches_on_every_gpu) {
  for (const int64_t limit : {kAda, kAmpere, kHopper}) {
    expect_fit<64>(limit);
    expect_fit<128>(limit);
    expect_fit<256>(limit);
  }
}

TEST(CudaTiles, tiles_that_fit_are_not_reduced) {
  EXPECT_TRUE((chooses<BackwardTiles<128, 64, 128, 8, 2>>(BackwardChoice<128>::List(), kHopper)));
  EXPECT_TRUE((chooses<BackwardTiles<128, 64, 128, 8, 2>>(BackwardChoice<128>::List(), kAmpere)));
  EXPECT_TRUE((chooses<BackwardTiles<128, 64, 64, 8, 1>>(BackwardChoice<128>::List(), kAda)));
  EXPECT_TRUE((chooses<BackwardTiles<256, 64, 64, 8, 2>>(BackwardChoice<256>::List(), kHopper)));
  EXPECT_TRUE((chooses<BackwardTiles<256, 64, 64, 8, 1>>(BackwardChoice<256>::List(), kAmpere)));
  EXPECT_TRUE((chooses<BackwardTiles<256, 32, 32, 4, 1>>(BackwardChoice<256>::List(), kAda)));
  EXPECT_TRUE((chooses<SimtTiles<128, 64>>(SimtChoice<128>::List(), kAmpere)));
  EXPECT_TRUE((chooses<SimtTiles<128, 32>>(SimtChoice<128>::List(), kAda)));
}

// A row's bits depend on the keys of a tile: one number for each head dim, whichever kernel the GPU and the rows' alignment choose.
template <int kD, class List>
void expect_keys(List list, int64_t limit) {
  with_tiles(list, "test", limit, [&]<class Tiles>() { EXPECT_EQ(Tiles::kN, kForwardKeys<kD>); });
}
template <int kD>
void expect_keys_of_forward_and_decoding() {
  for (const int64_t limit : {kAda, kAmpere, kHopper}) {
    SCOPED_TRACE(testing::Message() << "head dim " << kD << ", " << limit << " bytes");
    expect_keys<kD>(typename ForwardChoice<kD>::List(), limit);
    expect_keys<kD>(typename WeighChoice<kD>::Narrow(), limit);
    expect_keys<kD>(typename WeighChoice<kD>::Wide(), limit);
  }
}
TEST(CudaTiles, keys_of_a_tile_depend_on_the_head_dim_alone) {
  EXPECT_EQ(kForwardKeys<64>, 128);
  EXPECT_EQ(kForwardKeys<128>, 128);
  EXPECT_EQ(kForwardKeys<256>, 64);
  expect_keys_of_forward_and_decoding<64>();
  expect_keys_of_forward_and_decoding<128>();
  expect_keys_of_forward_and_decoding<256>();
}

TEST(CudaTiles, error_if_no_tile_fits) {
  EXPECT_NE(message_of([] {
              chosen_bytes<BackwardChoice<256>::List>(kLeastShared);
            }).find("needs 74752 bytes of shared memory for a block, this GPU has 49152"),
            std::string::npos);
}

TEST(CudaTiles, environment_limits_the_shared_memory) {
  EXPECT_EQ(shared_memory_limit(kHopper, nullptr), kHopper);
  EXPECT_EQ(shared_memory_limit(kHopper, ""), kHopper);
  EXPECT_EQ(shared_memory_limit(kHopper, "101376"), kAda);
  for (const char* wrong : {"99 KiB", "-1", "1000", "232449", "much"})
    EXPECT_NE(message_of([&] { shared_memory_limit(kHopper, wrong); }).find("expected 49152 to 232448 bytes"), std::string::npos) << wrong;
}

}  // namespace
}  // namespace weft::cuda
