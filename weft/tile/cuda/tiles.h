// Tiles chosen by the shared memory that a block may have on this GPU. Plain C++: the choice is tested without a GPU.
//
//   99 KiB   sm_86, sm_89, sm_120
//   163 KiB  sm_80, sm_87
//   227 KiB  sm_90, sm_100
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

#include "weft/base/check.h"

namespace weft::cuda {

inline constexpr int64_t kStaticShared = 1024;      // reserved for a kernel's static shared memory: barriers, a ticket
inline constexpr int64_t kLeastShared = 48 * 1024;  // of every GPU

// Shared memory of a block on a GPU that has `has` bytes; `asked` (WEFT_CUDA_SHARED_MEMORY) pretends that it has less.
inline int64_t shared_memory_limit(int64_t has, const char* asked) {
  if (!asked || !*asked) return has;
  const std::string_view text = asked;
  int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  const bool number = error == std::errc() && end == text.data() + text.size();
  check(number && bytes >= kLeastShared && bytes <= has, "WEFT_CUDA_SHARED_MEMORY", "is '", text, "', expected ", kLeastShared, " to ", has,
        " bytes");
  return bytes;
}

// Tile shapes of one kernel, the preferred one first. Each defines kBytes, the shared memory it takes.
template <class... Tiles>
struct TileList {};

// f.operator()<Tiles>() with the first that fits into `limit` bytes.
template <class First, class... Rest, class F>
void with_tiles(TileList<First, Rest...>, const char* op, int64_t limit, F&& f) {
  if (First::kBytes + kStaticShared <= limit) return f.template operator()<First>();
  if constexpr (sizeof...(Rest) > 0)
    return with_tiles(TileList<Rest...>(), op, limit, f);
  else
    fail(ErrorCode::unsupported, op, "needs ", First::kBytes + kStaticShared, " bytes of shared memory for a block, this GPU has ", limit);
}

}  // namespace weft::cuda
