// adapter_config.json of PEFT: which settings change what a saved adapter computes. Not installed.
#pragma once

#include "weft/io/json.h"

namespace weft {

// Throws unsupported, naming the key and its value, unless the adapter is plain LoRA: y = W x + scale B A x, with the
// base model's own W and one rank for all layers. A key that is not known here must be null, false, 0 or empty.
void check_plain_lora(const JsonNode& config);

}  // namespace weft
