#include "weft/nn/attention.h"

#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/kv_attention/kv_attention.h"

namespace weft {

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, int64_t layer, const Pass& pass, float scale) {
  if (!pass.cache) return causal_attention(q, k, v, scale);
  pass.cache->append(layer, k, v);
  if (pass.cache->empty() && pass.T > 1) return causal_attention(q, k, v, scale);  // a prompt: blocks of queries share the keys
  return kv_attention(q, pass.cache->keys(layer), pass.cache->values(layer), pass.cache->start(), scale);
}

}  // namespace weft
