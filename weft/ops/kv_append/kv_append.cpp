#include "weft/ops/kv_append/kv_append.h"

namespace weft {

void kv_append(Stream& stream, const KvAppendArgs& args) {
  const Contract contract = check_operands(stream, args);
  const int64_t T = args.k.shape[1], S = args.k_cache.shape[1];
  contract.require(T <= S, "there are ", T, " tokens for a cache of ", S, " positions");
  stream.device().kernels().kv_append(stream, args);
}

}  // namespace weft
