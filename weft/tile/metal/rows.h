// The launcher's half of rows.metal.h: how many threads share a row, how much of it each holds, how many teams there are.
#pragma once

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "weft/base/check.h"
#include "weft/tile/metal/launch.h"
#include "weft/tile/metal/row_chunks.h"

namespace weft::metal {

inline const char* suffix_of(DType dtype) { return dtype == DType::bf16 ? "_bf16" : "_f32"; }

// Whether this view, and every row of it, starts at 16 bytes. An absent one does.
inline bool aligned16(const View& view, int64_t stride = 0) {
  return !view || ((view.buffer->offset() + view.offset) % 16 == 0 && stride * size_of(view.dtype) % 16 == 0);
}

struct RowPlan {
  Kernel kernel;
  int team = 32, threads = 128;  // threads of a row, of a threadgroup
  int64_t groups = 0;
  bool held = true;

  Grid grid() const { return {{groups, 1, 1}, threads, 0}; }
};

inline int columns_of(const char* op, const Rows& rows) {
  check(rows.columns <= (1 << 30), op, "rows of ", rows.columns, " elements are longer than this device takes");
  return int(rows.columns);
}

// The kernel with the constants of rows.metal.h.
inline Kernel holding(Kernel kernel, int chunks, bool aligned) {
  kernel.constants.push_back(constant(0, int32_t(chunks)));
  kernel.constants.push_back(constant(1, aligned));
  return kernel;
}

// `teams` teams for rows of `columns` elements of `width` bytes. A thread holds at most `most` chunks of sixteen bytes;
// rows that are longer, or need more threads than the pipeline can have, are not held.
inline RowPlan plan_rows(Stream& stream, const Kernel& kernel, int64_t columns, int64_t width, int64_t teams, bool aligned,
                         int most = kMostChunks) {
  const int64_t chunks = (columns * width + 15) / 16;
  if (chunks <= 32) return {holding(kernel, 1, aligned), 32, 128, (teams + 3) / 4, true};
  const int held = chunks <= 128 ? 1 : chunks <= 512 ? 2 : chunks <= 4096 ? 4 : int(std::min<int64_t>((chunks + 1023) / 1024, most));
  const int64_t wanted = std::max<int64_t>(64, int64_t(std::bit_ceil(uint64_t((chunks + held - 1) / held))));
  if (wanted <= 1024) {
    const Kernel holds = holding(kernel, held, aligned);
    if (threads_of(stream, holds, int(wanted)) == wanted) return {holds, int(wanted), int(wanted), teams, true};
  }
  const Kernel streams = holding(kernel, 0, aligned);
  const int threads = threads_of(stream, streams, 1024);
  return {streams, threads, threads, teams, false};
}

// Teams for rows that share something each team reads, or writes for itself: so few that this is 1 / 32 of what the rows
// themselves move, at least `fewest`. In bytes for each column; by shape and dtypes alone.
inline int64_t sharing_teams(int64_t rows, int64_t moved, int64_t shared, int64_t fewest, int64_t most) {
  return std::min({rows, std::max(fewest, rows * moved / (32 * shared)), most});
}

// Teams for rows that share nothing.
inline int64_t teams_of(int64_t rows) { return std::min<int64_t>(rows, int64_t(1) << 20); }

// A thread for sixteen bytes of columns, of each of P slices of the rows.
inline Grid columns_grid(int64_t columns, int64_t width, int64_t P) {
  return {{(columns * width + 16 * 256 - 1) / (16 * 256), P, 1}, 256, 0};
}

// out = the sum of the P rows of partial, by the kernel of column_sums.metal.h that `file` includes.
inline void sum_partials(Stream& stream, const char* op, const char* file, const Buffer& partial, int64_t P, const MutView& sums) {
  const int64_t shape[2] = {P, sums.numel()};
  launch(stream, {op, file, "sum_partials", {}}, {.groups = {(shape[1] + 31) / 32, 1, 1}, .threads = 256},
         {in(partial), out(sums), params(shape)});
}

}  // namespace weft::metal
