#include "weft/ops/kv_append/kv_append.h"

namespace weft {

void kv_append(Stream& stream, const KvAppendArgs& args) {
  const Contract contract = check_operands(stream, args);
  check_pages(contract, args.k_cache, args.pages, args.k.shape[0]);
  const int64_t T = args.k.shape[1], S = kv_capacity(args.k_cache, args.pages);
  contract.require(T <= S, "there are ", T, " tokens for a cache of ", S, " positions");
  stream.device().kernels().kv_append(stream, args);
}

}  // namespace weft
