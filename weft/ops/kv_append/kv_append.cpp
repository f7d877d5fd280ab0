#include "weft/ops/kv_append/kv_append.h"

namespace weft {

void kv_append(Stream& stream, const KvAppendArgs& args) {
  const int64_t tokens = args.k.rank() == 4 ? args.k.shape[1] : 0, capacity = args.k_cache.rank() == 4 ? args.k_cache.shape[1] : 0;
  check_operands(stream, args).require(tokens <= capacity, "there are ", tokens, " tokens for a cache of ", capacity, " positions");
  stream.device().kernels().kv_append(stream, args);
}

}  // namespace weft
