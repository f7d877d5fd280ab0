// Models for the check of the promise of one order: small random ones of every architecture, and the shapes of real ones.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weft/models/model.h"

namespace weft {

inline constexpr int64_t kOrderFamilies = int64_t(Architecture::gpt_oss) + 1;  // number of families

struct OrderModel {
  std::string description;  // "qwen2, 2 layers, 4 heads of 32 (2 for keys), hidden 77, ..."
  std::unique_ptr<Model> model;
};

// Model number `index` of a seed. Its family is index modulo kOrderFamilies. Head dims of 16 to 128, grouped heads, tied embeddings,
// biases, windows, scaled RoPE, LoRA and odd sizes are drawn at random, and so are all parameters, including biases and adapters. It is
// trainable unless its weights are int8.
OrderModel random_order_model(Device& device, DType dtype, uint64_t seed, int64_t index, int64_t context, bool int8 = false);

// Random weights in the shape of a known model: "1b" (Llama 3.2 1B), "135m" (SmolLM2), "124m" (GPT-2). Throws listing the names for any
// other.
OrderModel shaped_order_model(Device& device, DType dtype, uint64_t seed, std::string_view shape, bool int8 = false);

}  // namespace weft
