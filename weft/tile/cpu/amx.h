// Matmul of bf16 in tiles of sixteen rows, on CPUs with Intel's AMX (tdpbf16ps).
//
// A word holds two bf16, the even k in its lower half, as in bf16_dot.h. For every 32 k, a block, a sum c takes
//   even = fma(a[k], b[k], even) from 0 over the even k, odd = the same over the odd k, then c = c + (even + odd),
// each step rounded once, to nearest even (the product of two bf16 is exact in f32). Subnormal inputs count as zero and subnormal
// results become zero. So a sum may be cut between blocks only; k is padded with zeros.
#pragma once

#include <cstdint>

#include "weft/base/dtype.h"

namespace weft::cpu {

inline constexpr int kAmxRows = 16, kAmxColumns = 16;  // of a tile of c
inline constexpr int kAmxBlock = 32;                   // k of a step, two to a word

// c[i][j] = start + sum over k of a[i][k] b[k][j], where start is from[i][j] or, without `from`, 0.
struct AmxMatmulArgs {
  int64_t rows, columns;  // whole tiles
  int64_t blocks;         // of 32 k
  const bf16* a;          // 32 of row i: a[i * a_row + block * a_block]
  int64_t a_row, a_block;
  const float* b;  // words, as their bits: sixteen rows of columns to a block, b[(16 * block + word) * b_row + j]
  int64_t b_row;
  const float* from;
  int64_t from_row;
  float* c;  // may be `from`
  int64_t c_row;
  const char* ahead = nullptr;  // the next tile of C, to be prefetched: two lines of each of 32 rows, ahead_row bytes apart
  int64_t ahead_row = 0;
};

// Whether this process may use AMX: the CPU has it and the system grants it. The system is asked once.
bool has_amx();

// While one lives, this thread may multiply. One for each task: the system saves tiles in use at each context switch.
class AmxTiles {
 public:
  AmxTiles();
  ~AmxTiles();
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

// On AMX if bf16_dot() is amx, which requires AmxTiles; else by the same steps in f32, except for subnormals.
void multiply_amx(const AmxMatmulArgs& args);

}  // namespace weft::cpu
