// Tile products (weft/tile/cpu/amx.h), by AMX if this machine has it, else emulated: the documented order of accumulation, bitwise, for
// every layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "weft/tile/cpu/amx.h"

namespace weft::cpu {
namespace {

struct Layout {
  int64_t rows, columns, blocks;
  bool tiles_of_a;  // A packed by blocks; else rows as stored
  int64_t padding;  // elements after each row of every operand
  enum class Start { zero, from, c } start;
};

class Amx : public testing::TestWithParam<Layout> {};

TEST_P(Amx, follows_the_documented_order) {
  const auto [rows, columns, blocks, tiles, padding, start] = GetParam();
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const int64_t K = blocks * kAmxBlock, words = K / 2;
  const int64_t a_row = tiles ? kAmxBlock : K + padding, a_block = tiles ? rows * kAmxBlock : kAmxBlock, b_row = columns + padding,
                c_row = columns + padding;
  std::vector<bf16> a(size_t(std::max(rows * a_row, blocks * a_block)), bf16(NAN));
  std::vector<float> b(size_t(words * b_row), NAN), c(size_t(rows * c_row), NAN), from(size_t(rows * c_row));
  for (float& x : from) x = normal(random);
  if (start == Layout::Start::c) c = from;
  const auto a_at = [&](int64_t i, int64_t k) -> bf16& { return a[size_t(i * a_row + k / kAmxBlock * a_block + k % kAmxBlock)]; };
  const auto b_at = [&](int64_t k, int64_t j) { return reinterpret_cast<bf16*>(&b[size_t(k / 2 * b_row + j)]) + k % 2; };
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < K; ++k) a_at(i, k) = bf16(normal(random));
  for (int64_t k = 0; k < K; ++k)
    for (int64_t j = 0; j < columns; ++j) *b_at(k, j) = bf16(normal(random));
  std::vector<float> expected = c;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      float sum = start == Layout::Start::zero ? 0 : from[size_t(i * c_row + j)];
      for (int64_t k = 0; k < K; k += kAmxBlock) {
        float part[2] = {0, 0};
        for (int64_t n = k; n < k + kAmxBlock; ++n) part[n % 2] = std::fma(float(a_at(i, n)), float(*b_at(n, j)), part[n % 2]);
        sum = sum + (part[0] + part[1]);
      }
      expected[size_t(i * c_row + j)] = sum;
    }
  const float* begin = start == Layout::Start::zero ? nullptr : start == Layout::Start::c ? c.data() : from.data();
  {
    const AmxTiles in_use;
    multiply_amx({rows, columns, blocks, a.data(), a_row, a_block, b.data(), b_row, begin, c_row, c.data(), c_row});
  }
  for (size_t i = 0; i < c.size(); ++i) ASSERT_EQ(std::bit_cast<uint32_t>(c[i]), std::bit_cast<uint32_t>(expected[i])) << i;
}

using Start = Layout::Start;
INSTANTIATE_TEST_SUITE_P(layouts, Amx,
                         testing::Values(Layout{16, 16, 1, false, 0, Start::zero}, Layout{16, 16, 2, true, 0, Start::from},
                                         Layout{16, 32, 3, false, 6, Start::c}, Layout{32, 16, 3, true, 2, Start::zero},
                                         Layout{32, 32, 5, true, 0, Start::c}, Layout{48, 80, 4, false, 16, Start::from},
                                         Layout{80, 48, 2, true, 4, Start::zero}, Layout{32, 32, 0, false, 0, Start::zero},
                                         Layout{64, 64, 24, false, 1, Start::from}));

}  // namespace
}  // namespace weft::cpu
