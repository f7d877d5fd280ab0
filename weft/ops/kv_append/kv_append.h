// Writes the keys and values of new tokens into a KV cache, after the positions that each sequence has filled:
//
//   k_cache[b, start[b] + t] = k[b, t]          v_cache[b, start[b] + t] = v[b, t]
//
// The cache may be paged (weft/ops/kv_pages.h). start and pages are read on the device only, so that a step can be captured and replayed.
// All other positions of the cache are unchanged. No gradient.
#pragma once

#include "weft/ops/kv_pages.h"
#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct KvAppendArgs {
  static constexpr const char* kOp = "kv_append";
  View k, v;
  View start;                // 0 <= start[b] <= capacity - T, else the stream raises a fault
  MutView k_cache, v_cache;  // k and v lie elsewhere
  View pages = {};           // the page tables; sequences must not write to the same page

  static constexpr auto operands() {
    using namespace operand;
    using A = KvAppendArgs;
    return std::array{in("k", &A::k, "B T H D", kFloats).columns(),
                      in("v", &A::v, "B T H D", like("k")).columns(),
                      in("start", &A::start, "B", DType::i32),
                      out("k_cache", &A::k_cache, "N S H D", like("k")).columns().uncounted(),
                      out("v_cache", &A::v_cache, "N S H D", like("k")).columns().uncounted(),
                      in("pages", &A::pages, "B P", DType::i32).optional()};
  }
};

void kv_append(Stream& stream, const KvAppendArgs& args);
// Only the new positions of the caches are written.
inline Cost cost(const KvAppendArgs& a) { return {operand_bytes(a) + bytes_of(a.k) + bytes_of(a.v), 0}; }

}  // namespace weft
